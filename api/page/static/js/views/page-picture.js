// The page of a document that a hit stands on, with its lines marked.
import { html, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { useAction } from "../hooks.js";
import { Alert, Button } from "../parts.js";

// Whether a page of a hit can be drawn.
export const hasPicture = (hit) => hit.file_type === "pdf" && Boolean(hit.page);

export function PagePicture({ toolId, hit }) {
  const [isOpen, setOpen] = useState(false);
  const [picture, setPicture] = useState(undefined);
  const load = useAction(async () => {
    const around = picture === undefined ? await get(toolAt(toolId, "chunks", hit.chunk_id), { picture: true }) : { picture };
    setPicture(around.picture);
    setOpen(!isOpen);
  });
  return html`<${Button} class="plain" action=${load} aria-expanded=${isOpen ? "true" : "false"} busyText="Drawing …">${isOpen ? "Hide the page" : `Show page ${hit.page}`}<//>
    <${Alert} error=${load.error} />
    ${isOpen && (picture ? html`<${Drawn} picture=${picture} name=${hit.file_path} />`
      : html`<p class="quiet page-picture" role="status">This page cannot be drawn: the file changed since it was read, or is damaged.</p>`)}`;
}

// A canvas, because the page loads no picture but its own. The marks lie above it.
function Drawn({ picture: { page, png, width, height, boxes }, name }) {
  const canvas = useRef(null);
  useEffect(() => {
    let isGone = false;
    const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
    createImageBitmap(new Blob([bytes], { type: "image/png" })).then((image) => isGone || canvas.current.getContext("2d").drawImage(image, 0, 0));
    return () => (isGone = true);
  }, [png]);
  const found = boxes.length ? "with the passage marked" : "where the passage was not found";
  return html`<div class="page-picture" tabindex="0" role="region" aria-label=${`Page ${page} of ${name}, ${found}`}>
    <div class="paper">
      <canvas ref=${canvas} width=${width} height=${height} role="img" aria-label=${`Page ${page}. Its text is shown above.`}></canvas>
      <svg aria-hidden="true" viewBox="0 0 1 1" preserveAspectRatio="none">
        ${boxes.map(([x, y, wide, high], index) => html`<rect key=${index} class="passage" x=${x} y=${y} width=${wide} height=${high} />`)}
      </svg>
    </div>
  </div>`;
}
