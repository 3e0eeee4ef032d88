// Shapes of pictures: where things lie, and the paths that draw them.

// Rectangles for `sizes`, largest first, that fill the box [x, y, width, height] and are as near to squares as can be.
export function rectangles(sizes, [x, y, width, height]) {
  const whole = sizes.reduce((sum, size) => sum + size, 0);
  const placed = [];
  let [left, top, wide, high] = [x, y, width, height];
  let at = 0;
  while (at < sizes.length && whole > 0) {
    const short = Math.min(wide, high);
    const area = (size) => (size / whole) * width * height;
    const row = [];
    let sum = 0;
    // one more in the row as long as none becomes narrower than the narrowest was
    for (let worst = Infinity; at < sizes.length; at += 1) {
      const more = sum + area(sizes[at]);
      const thick = more / short;
      const next = Math.max(...[...row, area(sizes[at])].map((each) => Math.max((thick * thick) / each, each / (thick * thick))));
      if (row.length && next > worst) break;
      row.push(area(sizes[at]));
      [sum, worst] = [more, next];
    }
    const thick = short > 0 ? sum / short : 0;
    let along = 0;
    for (const each of row) {
      const long = thick > 0 ? each / thick : 0;
      placed.push(wide >= high ? [left, top + along, thick, long] : [left + along, top, long, thick]);
      along += long;
    }
    if (wide >= high) [left, wide] = [left + thick, Math.max(0, wide - thick)];
    else [top, high] = [top + thick, Math.max(0, high - thick)];
  }
  return placed;
}

// A part of a ring around 0, 0: angles are shares of a turn, from the top on.
export function ringPart(inner, outer, from, to) {
  // a whole turn would begin where it ends
  const end = Math.min(to, from + 0.9999);
  const spot = (radius, turn) => `${(radius * Math.sin(turn * 2 * Math.PI)).toFixed(2)} ${(-radius * Math.cos(turn * 2 * Math.PI)).toFixed(2)}`;
  const isLong = end - from > 0.5 ? 1 : 0;
  return `M${spot(outer, from)} A${outer} ${outer} 0 ${isLong} 1 ${spot(outer, end)} L${spot(inner, end)} A${inner} ${inner} 0 ${isLong} 0 ${spot(inner, from)} Z`;
}
