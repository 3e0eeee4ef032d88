// Runs over time: a spark line in a row of Home, and bars above the table of runs.
import { html, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { compact, dollars, duration, number, plural, time } from "../format.js";
import { useData } from "../hooks.js";
import { speed } from "../running.js";

const SPARK_RUNS = 12;
const WIDE = 5;
const HIGH = 20;
// What a run did, however little.
const LEAST = 2;

const workOf = (run) => run.embedded_chunks + run.reused_chunks;

// Bars from left to right, the newest at the right edge. A square root keeps a small run visible beside a large one.
function Bars({ runs, of, high }) {
  const from = Math.max(0, SPARK_RUNS - runs.length);
  const most = Math.max(...runs.map(of), 1);
  return runs.map((run, place) => {
    const tall = LEAST + (high - LEAST) * Math.sqrt(of(run) / most);
    return html`<rect key=${run.task_id} class=${`run-${run.status}`} x=${(from + place) * WIDE} y=${high - tall} width=${WIDE - 1} height=${tall} />`;
  });
}

// The last runs of a folder, loaded once the row is seen.
export function Spark({ toolId, name, status }) {
  const place = useRef(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => entry.isIntersecting && setSeen(true));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  const none = { items: [] };
  const { data } = useData(
    (signal) => (isSeen ? get(toolAt(toolId, "tasks"), { limit: SPARK_RUNS }, signal) : Promise.resolve(none)),
    [toolId, isSeen, status?.task_id, status?.status],
  );
  const runs = [...(data?.items ?? [])].reverse();
  const failed = runs.filter((run) => run.status === "error").length;
  const newest = runs.at(-1);
  if (!newest || newest.tokens === null) return html`<span class="spark" ref=${place}></span>`;
  const said = `Last ${plural(runs.length, "run")} of ${name}${failed ? `, ${number(failed)} failed` : ""}; the newest worked on ${plural(workOf(newest), "chunk")}.`;
  return html`<span class="spark" ref=${place}>
    <svg role="img" aria-label=${said} viewBox=${`0 0 ${SPARK_RUNS * WIDE} ${HIGH}`} width=${SPARK_RUNS * WIDE} height=${HIGH}>
      <title>${said}</title><${Bars} runs=${runs} of=${workOf} high=${HIGH} /></svg>
  </span>`;
}

// Files, tokens and cost of runs side by side. The table below says the same in numbers.
export function RunsOverTime({ runs, price }) {
  if (runs.length < 2 || runs[0].tokens === null) return null;
  const shown = [...runs].reverse();
  const costOf = (run) => (run.tokens / 1e6) * (price ?? 0);
  const took = (run) => speed(run)?.seconds ?? 0;
  const charts = [["Files", (run) => run.total_files, number], ["Embedded", (run) => run.embedded_chunks, compact],
    ["Tokens", (run) => run.tokens, compact], price > 0 && ["Cost", costOf, dollars], ["Time", took, duration]].filter(Boolean);
  return html`<div class="run-charts">
    ${charts.map(([name, of, written]) => {
      const newest = shown.at(-1);
      const most = Math.max(...shown.map(of));
      const said = `${name} of ${plural(shown.length, "run")} from ${time(shown[0].created_at)} on: at most ${written(most)}, ${written(of(newest))} in the newest.`;
      return html`<figure key=${name}>
        <figcaption>${name} <span class="quiet">at most ${written(most)}</span></figcaption>
        <svg role="img" aria-label=${said} viewBox=${`0 0 ${Math.max(SPARK_RUNS, shown.length) * WIDE} 40`} preserveAspectRatio="none"><title>${said}</title><${Bars} runs=${shown} of=${of} high=${40} /></svg>
      </figure>`;
    })}
  </div>`;
}
