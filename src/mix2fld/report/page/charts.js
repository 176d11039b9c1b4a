// Charts as SVG, drawn for the available width, so that text stays readable on a phone.

function lineChart(box, lines, options) {
  const width = scrollSafe(box.clientWidth);
  const height = width < 520 ? 300 : 400;
  const named = width > 640 && lines.every((line) => line.title.length <= 12);
  const margin = { left: 60, right: named ? 92 : 14, top: 12, bottom: 44 };
  const scale = scales(lines, options, width, height, margin);
  const label = `${options.measure} over ${options.axis}. ` +
    lines.map((line) => `${line.label}: ${percent(line.mean[line.mean.length - 1])} at the end`).join("; ");
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0, "aria-label": label,
  });
  drawAxes(svg, scale, options, width, height, margin);
  const clip = `clip-${Math.random().toString(36).slice(2)}`;
  svg.append(shape("clipPath", { id: clip }, shape("rect", {
    x: margin.left, y: margin.top, width: width - margin.left - margin.right,
    height: height - margin.top - margin.bottom,
  })));
  const inside = shape("g", { "clip-path": `url(#${clip})` });
  for (const line of lines) drawBand(inside, line, scale);
  for (const line of lines) drawLine(inside, line, scale);
  svg.append(inside);
  if (named) drawNames(svg, lines, scale, width - margin.right + 6, height - margin.bottom);
  box.replaceChildren(svg);
  if (!lines.length) box.prepend(element("p", { class: "empty" }, options.empty));
  readValues(box, svg, lines, scale, options, { width, height, margin });
}

function scales(lines, options, width, height, margin) {
  const usable = (value) => !options.log || value > 0;
  const all = options.together ?? lines;
  const xs = all.flatMap((line) => line.x.filter(usable));
  const far = Math.max(...xs, options.log ? 1e-6 : 0.01);
  const near = options.log ? Math.min(...xs, far) : Math.min(0, ...xs);
  const trained = all.flatMap((line) => line.low.filter((_, i) => line.x[i] >= 0.04 * far));
  const tops = all.flatMap((line) => line.high);
  let [low, high] = [0, 1];
  if (!options.whole && trained.length) {
    low = Math.min(...trained);
    high = Math.max(...tops);
    const extra = 0.06 * Math.max(high - low, 0.02);
    [low, high] = [Math.max(0, low - extra), Math.min(1, high + extra)];
  }
  const place = options.log
    ? (x) => Math.log(Math.max(x, near) / near) / Math.max(1e-9, Math.log(far / near))
    : (x) => (x - near) / (far - near);
  const [left, right] = [margin.left, width - margin.right];
  const [top, bottom] = [margin.top, height - margin.bottom];
  return {
    near, far, low, high, usable,
    x: (value) => left + place(value) * (right - left),
    y: (value) => bottom - ((value - low) / (high - low)) * (bottom - top),
    back: (pixel) => {
      const part = Math.min(1, Math.max(0, (pixel - left) / (right - left)));
      return options.log ? near * (far / near) ** part : near + part * (far - near);
    },
  };
}

function drawAxes(svg, scale, options, width, height, margin) {
  const bottom = height - margin.bottom;
  const right = width - margin.right;
  for (const value of ticks(scale.low, scale.high, 6)) {
    const y = scale.y(value);
    svg.append(shape("line", { class: "gridline", x1: margin.left, x2: right, y1: y, y2: y }));
    svg.append(shape("text", { class: "tick", x: margin.left - 7, y: y + 4, "text-anchor": "end" }, percent(value)));
  }
  const many = Math.max(3, Math.floor((right - margin.left) / 85));
  const at = options.log ? logTicks(scale.near, scale.far, many) : ticks(scale.near, scale.far, many);
  for (const value of at) {
    const x = scale.x(value);
    svg.append(shape("line", { class: "gridline", x1: x, x2: x, y1: margin.top, y2: bottom }));
    svg.append(shape("text", { class: "tick", x, y: bottom + 17, "text-anchor": "middle" }, short(value)));
  }
  svg.append(shape("path", { class: "frame", d: `M${margin.left} ${margin.top}V${bottom}H${right}` }));
  const middle = (margin.left + right) / 2;
  svg.append(shape("text", { class: "axis", x: middle, y: height - 6, "text-anchor": "middle" },
    options.axis));
}

function pathOf(line, values, scale) {
  const points = [];
  line.x.forEach((x, i) => {
    if (scale.usable(x)) points.push(`${scale.x(x).toFixed(1)} ${scale.y(values[i]).toFixed(1)}`);
  });
  return points;
}

function drawBand(group, line, scale) {
  if (Math.max(...line.seeds) < 2) return;
  const there = pathOf(line, line.high, scale);
  const back = pathOf(line, line.low, scale).reverse();
  if (there.length > 1)
    group.append(shape("path", {
      class: "band", d: `M${there.join("L")}L${back.join("L")}Z`, "fill-opacity": 0.16,
      style: { fill: ink(line) },
    }));
}

function drawLine(group, line, scale) {
  const points = pathOf(line, line.mean, scale);
  group.append(shape("path", {
    class: "line", "data-series": line.label, d: `M${points.join("L")}`, fill: "none",
    "stroke-width": 2.2, "stroke-linejoin": "round", "stroke-dasharray": line.dash || null,
    style: { stroke: ink(line) },
  }));
  const last = points.length === 1 ? [points[0].split(" ")] : [];
  for (const [cx, cy] of last) group.append(shape("circle", { cx, cy, r: 3.5, style: { fill: ink(line) } }));
  for (const [x, y] of line.converged.filter(([x]) => scale.usable(x)))
    group.append(shape("circle", {
      class: "converged", cx: scale.x(x), cy: scale.y(y), r: 4.5, "stroke-width": 2,
      style: { stroke: ink(line), fill: "var(--card)" },
    }));
}

// Names at the ends of the lines, moved apart where they would overlap.
function drawNames(svg, lines, scale, x, bottom) {
  const names = lines
    .map((line) => ({ line, y: Math.min(bottom, scale.y(line.mean[line.mean.length - 1])) }))
    .sort((a, b) => a.y - b.y);
  for (let i = 1; i < names.length; i++) names[i].y = Math.max(names[i].y, names[i - 1].y + 15);
  const over = names.length ? names[names.length - 1].y - bottom : 0;
  for (const { line, y } of names)
    svg.append(shape("text", { x, y: y + 4 - Math.max(0, over), style: { fill: ink(line), fontWeight: 600 } },
      line.title));
}

// Values at the pointer, or at a mark that the arrow keys move.
function readValues(box, svg, lines, scale, options, { width, height, margin }) {
  const rule = shape("line", { class: "frame", y1: margin.top, y2: height - margin.bottom, visibility: "hidden" });
  svg.append(rule);
  const tip = element("div", { class: "tip", hidden: true });
  box.append(tip);
  const hide = () => { tip.hidden = true; rule.setAttribute("visibility", "hidden"); };
  const show = (pixel, spoken) => {
    const x = scale.back(pixel);
    const rows = lines
      .map((line) => ({ line, mean: valueAt(line.x, line.mean, x), low: valueAt(line.x, line.low, x),
        high: valueAt(line.x, line.high, x), seeds: line.seeds[line.x.findIndex((v) => v >= x - 1e-9)] }))
      .filter((row) => row.mean !== null)
      .sort((a, b) => b.mean - a.mean);
    if (!rows.length) return hide();
    const place = scale.x(x);
    rule.setAttribute("x1", place);
    rule.setAttribute("x2", place);
    rule.setAttribute("visibility", "visible");
    const where = `${short(x)} ${options.unit}`;
    const cells = rows.flatMap(({ line, mean, low, high, seeds }) => [
      swatch(line), element("span", {}, line.label),
      element("span", {}, percent(mean) + (seeds > 1 ? ` (${percent(low)} to ${percent(high)})` : "")),
    ]);
    tip.replaceChildren(element("div", { class: "muted" }, where), element("div", { class: "row" }, ...cells));
    tip.hidden = false;
    const half = tip.offsetWidth + 14;
    tip.style.left = `${Math.max(0, place + half > width ? place - half : place + 14)}px`;
    tip.style.top = `${margin.top}px`;
    if (spoken) $("said").textContent = `${where}: ` + rows.map((r) => `${r.line.label} ${percent(r.mean)}`).join(", ");
    return undefined;
  };
  svg.addEventListener("pointermove", (event) => show(event.clientX - svg.getBoundingClientRect().left));
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  const [left, right] = [margin.left, width - margin.right];
  let at = right;
  svg.addEventListener("keydown", (event) => {
    const step = (right - left) / 40;
    const moves = { ArrowLeft: at - step, ArrowRight: at + step, Home: left, End: right };
    if (!(event.key in moves)) return;
    event.preventDefault();
    at = Math.min(right, Math.max(left, moves[event.key]));
    show(at, true);
  });
}

// A row of dots for each series: the accuracy of each device.
function stripChart(box, rows) {
  const width = scrollSafe(box.clientWidth);
  const wide = width > 560;
  const left = wide ? 130 : 10;
  const rowHeight = wide ? 40 : 52;
  const height = rows.length * rowHeight + 40;
  const values = rows.flatMap((row) => row.dots.map(({ value }) => value));
  if (!values.length) return box.replaceChildren(element("p", { class: "empty" }, "No round with this seed yet."));
  const spread = Math.max(...values) - Math.min(...values);
  const low = Math.max(0, Math.min(...values) - 0.05 * spread - 0.005);
  const high = Math.min(1, Math.max(...values) + 0.05 * spread + 0.005);
  const x = (value) => left + ((value - low) / (high - low)) * (width - left - 30);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label":
    rows.map(({ series, dots }) => ({ series, own: dots.map(({ value }) => value) })).map(({ series, own }) =>
      `${series.label}: devices from ${percent(Math.min(...own))} to ${percent(Math.max(...own))}`).join("; ") });
  for (const value of ticks(low, high, wide ? 8 : 4)) {
    svg.append(shape("line", { class: "gridline", x1: x(value), x2: x(value), y1: 4, y2: height - 32 }));
    svg.append(shape("text", { class: "tick", x: x(value), y: height - 14, "text-anchor": "middle" }, percent(value)));
  }
  rows.forEach((row, number) => {
    const y = number * rowHeight + rowHeight / 2 + (wide ? 0 : 8);
    const name = wide ? { x: left - 12, y: y + 4, "text-anchor": "end" } : { x: left, y: y - 14 };
    svg.append(shape("text", name, row.series.title));
    const mean = row.dots.reduce((sum, { value }) => sum + value, 0) / row.dots.length;
    row.dots.forEach(({ value, device }) => {
      const dot = shape("circle", { class: "device", cx: x(value), cy: y, r: 6, "fill-opacity": 0.55,
        style: { fill: ink(row.series), stroke: "var(--card)" } },
      shape("title", {}, `device ${device}: ${percent(value)}`));
      svg.append(dot);
    });
    svg.append(shape("line", { x1: x(mean), x2: x(mean), y1: y - 13, y2: y + 13, "stroke-width": 3,
      style: { stroke: ink(row.series) } }, shape("title", {}, `mean: ${percent(mean)}`)));
  });
  return box.replaceChildren(svg);
}

// What happened to a transfer, by the letter in the data: how its cell is drawn, and whether by lines.
const DELIVERIES = {
  d: { name: "delivered", colour: "var(--good)", draw: (x, y, w, h) => `M${x} ${y}h${w}v${h}h${-w}z` },
  l: { name: "lost", colour: "var(--lost)", lines: true,
    draw: (x, y, w, h) => `M${x + 1} ${y + 1}L${x + w - 1} ${y + h - 1}M${x + w - 1} ${y + 1}L${x + 1} ${y + h - 1}` },
  n: { name: "not-asked", colour: "var(--muted)", lines: true, draw: (x, y, w, h) => `M${x + w * 0.2} ${y + h / 2}h${w * 0.6}` },
  "-": { name: "nothing-sent", colour: "var(--muted)", draw: (x, y, w, h) => `M${x + w / 2 - 1} ${y + h / 2 - 1}h2v2h-2z` },
};

function deliveryPath(kind, d, thick) {
  const { name, colour, lines } = DELIVERIES[kind];
  return shape("path", { class: name, d, "stroke-width": lines ? (thick ? 1.6 : 0.8) : null,
    style: lines ? { fill: "none", stroke: colour } : { fill: colour } });
}

// The same mark in a legend.
function deliveryMark(kind) {
  return shape("svg", { width: 12, height: 12, "aria-hidden": "true" }, deliveryPath(kind, DELIVERIES[kind].draw(0, 0, 12, 12), true));
}

// Deliveries: a cell for each device and round, one path for each kind.
function deliveryGrid(series, run, direction) {
  const rows = run[direction];
  const devices = rows[0].length;
  const rounds = rows.length;
  const cell = Math.max(3, Math.min(18, Math.floor(210 / Math.max(rounds, 1)), Math.floor(300 / devices)));
  const wide = Math.max(3, Math.min(26, 210 / rounds));
  const gap = cell > 6 ? 2 : 0.5;
  const paths = { d: "", l: "", n: "", "-": "" };
  const count = { d: 0, l: 0, n: 0, "-": 0 };
  rows.forEach((row, round) => [...row].forEach((kind, device) => {
    count[kind] += 1;
    paths[kind] += DELIVERIES[kind].draw(round * wide, device * cell, wide - gap, cell - gap);
  }));
  const sent = count.d + count.l;
  const caption = (sent ? `${count.d.toLocaleString("en")} of ${sent.toLocaleString("en")} delivered` : "nothing sent") +
    (count.n ? `, ${count.n.toLocaleString("en")} not asked` : "");
  const [width, height] = [rounds * wide, devices * cell];
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `${series.label}: ${caption}`, style: { maxWidth: "100%", height: "auto" } },
  shape("rect", { width, height, fill: "transparent" }),
  ...Object.keys(paths).map((kind) => deliveryPath(kind, paths[kind], cell > 6)));
  const title = shape("title");
  svg.append(title);
  svg.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect();
    const round = Math.min(rounds - 1, Math.floor(((event.clientX - frame.left) / frame.width) * rounds));
    const device = Math.min(devices - 1, Math.floor(((event.clientY - frame.top) / frame.height) * devices));
    const kind = rows[round]?.[device];
    if (kind) title.textContent = `round ${run.rounds[round]}, device ${run.devices[device]}: ${data.deliveries[kind]}`;
  });
  return element("figure", {}, element("figcaption", {}, swatch(series), element("b", {}, series.title),
    element("div", { class: "muted" }, caption)), svg);
}

// A table of numbers as shades of one colour, with the numbers where they fit.
function heatMap(box, counts) {
  const [devices, labels] = [counts.length, counts[0].length];
  const width = scrollSafe(box.clientWidth);
  const left = 44;
  const cellWidth = Math.min(64, (width - left - 2) / labels);
  const cellHeight = Math.max(4, Math.min(26, Math.floor(560 / devices)));
  const height = devices * cellHeight + 26;
  const top = Math.max(...counts.flat(), 1);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label":
    `Samples of ${labels} labels on ${devices} devices, from ${Math.min(...counts.flat())} to ${top}` });
  for (let label = 0; label < labels; label++)
    if (cellWidth > 14 || label % 10 === 0)
      svg.append(shape("text", { class: "tick", x: left + (label + 0.5) * cellWidth, y: 14, "text-anchor": "middle" }, String(label)));
  counts.forEach((row, device) => {
    const y = 20 + device * cellHeight;
    if (cellHeight > 11 || device % 10 === 0)
      svg.append(shape("text", { class: "tick", x: left - 8, y: y + cellHeight / 2 + 4, "text-anchor": "end" }, String(device)));
    row.forEach((count, label) => {
      const x = left + label * cellWidth;
      const shade = Math.round(8 + 80 * (count / top));
      svg.append(shape("rect", { class: "cell", x, y, width: cellWidth - 1.5, height: cellHeight - 1.5, rx: 2,
        style: { fill: `color-mix(in oklab, var(--accent) ${shade}%, var(--card))` } },
      shape("title", {}, `device ${device}, label ${label}: ${count} samples`)));
      if (cellWidth >= 24 && cellHeight >= 16)
        svg.append(shape("text", { x: x + cellWidth / 2 - 0.7, y: y + cellHeight / 2 + 3.5, "text-anchor": "middle",
          style: { fill: shade > 50 ? "var(--accent-ink)" : "var(--ink)", fontSize: "11px", pointerEvents: "none" } }, String(count)));
    });
  });
  box.replaceChildren(svg);
}
