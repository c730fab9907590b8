"use strict";
// Unpacks the compressed parts of the page: the charts' data, plotly, and explanations.
const packed = (() => {
  /** The text in a base64 of deflated bytes. */
  async function text(base64) {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }

  const json = async (base64) => JSON.parse(await text(base64));

  /** Run a compressed script of the page immediately. */
  async function script(source) {
    const element = document.createElement("script");
    element.textContent = await text(source.textContent);
    document.head.append(element);
  }

  return { text, json, script };
})();
