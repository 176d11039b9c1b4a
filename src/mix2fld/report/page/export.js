// Every chart as PNG, SVG and CSV. What is drawn by SVG, text and images is copied as it looks on the page.

const COPIED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin",
  "opacity", "font-size", "font-family", "font-weight", "text-anchor", "visibility", "paint-order"];

// Buttons below a chart; rows() gives the table behind it, its heading first.
function exportable(id, name, rows) {
  const box = $(id);
  let bar = $(`${id}-export`);
  if (!bar) {
    bar = element("div", { class: "export", id: `${id}-export`, role: "group" });
    (box.closest(".scroll-frame") ?? box).after(bar);
    const made = { PNG: () => pngOf(box), SVG: async () => new Blob([svgOf(box)], { type: "image/svg+xml" }),
      CSV: async () => new Blob([csvOf(bar.rows())], { type: "text/csv" }) };
    for (const [kind, make] of Object.entries(made))
      bar.append(button(kind, async () => save(await make(), `${fileName(bar.dataset.name)}.${kind.toLowerCase()}`), { class: "small" }));
  }
  bar.rows = rows;
  bar.dataset.name = name;
  bar.setAttribute("aria-label", `Download: ${name}`);
  for (const one of bar.children) one.setAttribute("aria-label", `Download ${name} as ${one.textContent}`);
  bar.hidden = !box.querySelector("svg, table");
}

const fileName = (name) => name.toLowerCase().replace(/[^a-z0-9]+/g, "-");

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function csvOf(rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function svgOf(box) {
  const frame = box.getBoundingClientRect();
  const [width, height] = [Math.ceil(frame.width), Math.ceil(box.scrollHeight)];
  const out = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  out.append(shape("rect", { width, height, fill: getComputedStyle(box.closest("section")).backgroundColor }));
  for (const svg of box.querySelectorAll("svg")) {
    const at = svg.getBoundingClientRect();
    if (svg.parentElement.closest("svg, .tip") || !at.width) continue;
    const copy = svg.cloneNode(true);
    copyStyles(svg, copy);
    fill(copy, { x: at.left - frame.left, y: at.top - frame.top, width: at.width, height: at.height }, []);
    out.append(copy);
  }
  for (const image of box.querySelectorAll("img")) {
    const at = image.getBoundingClientRect();
    out.append(shape("image", { href: image.src, x: at.left - frame.left, y: at.top - frame.top, width: at.width, height: at.height }));
  }
  copyText(box, frame, out);
  return new XMLSerializer().serializeToString(out);
}

function copyStyles(from, to) {
  const style = getComputedStyle(from);
  to.removeAttribute("style");
  for (const name of COPIED) to.setAttribute(name, style.getPropertyValue(name));
  [...from.children].forEach((child, n) => copyStyles(child, to.children[n]));
}

function copyText(box, frame, out) {
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("svg, .tip, .hidden")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const at = range.getBoundingClientRect();
    const style = getComputedStyle(parent);
    if (at.width) out.append(shape("text", { x: at.left - frame.left, y: at.bottom - frame.top - 0.25 * at.height, fill: style.color,
      "font-size": style.fontSize, "font-family": style.fontFamily, "font-weight": style.fontWeight }, node.data.trim()));
  }
}

async function pngOf(box) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOf(box))}`;
  await image.decode();
  const canvas = element("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}
