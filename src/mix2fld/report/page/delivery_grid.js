// What happened to a transfer, by the letter in the data: how its cell is drawn, and whether by lines.
const DELIVERIES = {
  d: { name: "delivered", draw: (x, y, w, h) => `M${x} ${y}h${w}v${h}h${-w}z` },
  l: { name: "lost", lines: true,
    draw: (x, y, w, h) => `M${x + 1} ${y + 1}L${x + w - 1} ${y + h - 1}M${x + w - 1} ${y + 1}L${x + 1} ${y + h - 1}` },
  n: { name: "not-asked", lines: true, draw: (x, y, w, h) => `M${x + w * 0.2} ${y + h / 2}h${w * 0.6}` },
  "-": { name: "nothing-sent", draw: (x, y, w, h) => `M${x + w / 2 - 1} ${y + h / 2 - 1}h2v2h-2z` },
};

function deliveryPath(kind, d, thick) {
  const { name, lines } = DELIVERIES[kind];
  const colour = both(data.charts.deliveries[kind]);
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
    if (kind) title.textContent = `round ${run.rounds[round]}, device ${run.devices[device]}: ${data.charts.deliveries[kind].name}`;
  });
  return element("figure", {}, element("figcaption", {}, swatch(series), element("b", {}, series.title),
    element("div", { class: "muted" }, caption)), svg);
}
