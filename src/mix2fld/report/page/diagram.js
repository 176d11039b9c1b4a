// A round of the chosen protocol as a moving picture, with the run's own samples and payload sizes.

const STEPS = [["device", "Train"], ["uplink", "Upload"], ["server", "Server"], ["downlink", "Download"]];
const DRAWN_DEVICES = 3;

function drawDiagram() {
  const list = seriesHere();
  const series = shownSeries(list);
  const at = Math.max(0, STEPS.findIndex(([name]) => name === chosen.step));
  $("diagram-steps").replaceChildren(...STEPS.map(([name, words], n) => button(`${n + 1} ${words}`, () => { drawDiagram.player.pause(); goTo(series, n); },
    { "data-step": name, "aria-pressed": String(n === at) })));
  drawDiagram.now = at;
  drawDiagram.player?.pause();
  drawDiagram.player = player({ box: $("diagram-play"), steps: STEPS.length, seconds: 2.2, frame: (part) => paintDiagram(series, drawDiagram.now, part),
    step: (by) => { goTo(series, (drawDiagram.now + by + STEPS.length) % STEPS.length); return by < 0 || drawDiagram.now !== 0; } });
  paintDiagram(series, at, still(STEPS[at][0]));
  exportable("diagram-chart", `A round of ${series.title}`, () => [["step", "words"], ...STEPS.map(([name]) => [name, series.steps[name]])]);
}

// How far a step has come while the animation is paused: packets are on their way.
const still = (step) => (step === "uplink" || step === "downlink" ? 0.7 : 1);

function goTo(series, n) {
  drawDiagram.now = n;
  remember({ step: STEPS[n][0] });
  for (const one of $("diagram-steps").children) one.setAttribute("aria-pressed", String(one.dataset.step === STEPS[n][0]));
  paintDiagram(series, n, still(STEPS[n][0]));
}

function paintDiagram(series, at, part) {
  const step = STEPS[at][0];
  const box = $("diagram-chart");
  const width = widthOf(box);
  const narrow = width < 560;
  const height = narrow ? 350 : 300;
  const [deviceX, serverX] = [narrow ? 44 : 96, width - (narrow ? 52 : 110)];
  const count = Math.min(DRAWN_DEVICES, setting().devices);
  const ys = Array.from({ length: count }, (_, n) => 56 + (n * (height - 112)) / Math.max(1, count - 1));
  const middle = height / 2;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": series.steps[step] });
  ys.forEach((y) => svg.append(shape("line", { class: "gridline", x1: deviceX + 34, y1: y, x2: serverX - 40, y2: middle })));
  const names = drawnDevices(series);
  ys.forEach((y, n) => drawNode(svg, deviceX, y, `device ${names[n]}`, step === "device", 30));
  drawNode(svg, serverX, middle, "server", step === "server", 38);
  if (step === "device") drawTraining(svg, series, deviceX, ys, part, narrow);
  if (step === "server") drawServerStep(svg, series, serverX, middle, narrow);
  if (step === "uplink" || step === "downlink") drawPackets(svg, series, step, { deviceX, serverX, ys, middle }, part);
  box.replaceChildren(svg);
  $("diagram-words").textContent = series.steps[step] + numbersOf(series, step);
}

function drawNode(svg, x, y, words, active, size) {
  svg.append(shape("rect", { class: active ? "node active" : "node", x: x - size, y: y - size * 0.7, width: 2 * size, height: 1.4 * size, rx: 9 }),
    shape("text", { x, y: y + 4, "text-anchor": "middle", style: { fontSize: size > 32 ? "13px" : "11px" } }, words));
}

const galleryOf = (series) => (setting().gallery?.protocol === series.title && setting().gallery.cards.length ? setting().gallery : null);

// Those whose samples are shown, then the first others.
function drawnDevices(series) {
  const shown = galleryOf(series)?.cards[0].mixes.map((mix) => mix.device) ?? [];
  const others = Array.from({ length: setting().devices }, (_, n) => n).filter((n) => !shown.includes(n));
  return [...shown, ...others].slice(0, DRAWN_DEVICES);
}

// Samples of the run beside a device: what is mixed, and what the mix looks like.
function drawTraining(svg, series, x, ys, part, narrow) {
  const gallery = galleryOf(series);
  ys.forEach((y, n) => {
    svg.append(shape("rect", { x: x - 28, y: y + 25, width: 56, height: 5, rx: 2.5, style: { fill: "var(--grid)" } }),
      shape("rect", { x: x - 28, y: y + 25, width: 56 * part, height: 5, rx: 2.5, style: { fill: ink(series) } }));
    const mix = gallery?.cards[0].mixes[n];
    if (!mix) return;
    const size = narrow ? 30 : 40;
    let at = x + 46;
    mix.raw.forEach((tile, k) => {
      drawTile(svg, tile, at, y - size / 2, size, false);
      at += size + 4;
      svg.append(shape("text", { class: "tick", x: at + 4, y: y + 4 }, k < mix.raw.length - 1 ? "+" : "="));
      at += 18;
    });
    drawTile(svg, mix.mixed, at, y - size / 2, size, true);
  });
}

function drawServerStep(svg, series, x, y, narrow) {
  const made = galleryOf(series)?.cards[0];
  if (!made) return;
  const tiles = made.made.length ? made.made : made.mixes.map((mix) => mix.mixed);
  const size = narrow ? 40 : 56;
  tiles.slice(0, 4).forEach((tile, n) => drawTile(svg, tile, x - 52 - (size + 8) * (tiles.length - n), y - size / 2, size, true));
  svg.append(shape("text", { class: "tick", x: x - 52 - (size + 8), y: y - size / 2 - 10, "text-anchor": "end" }, made.made.length ? "unmixed samples" : "collected samples"));
}

function drawTile(svg, tile, x, y, size, seen) {
  if (tile.image) svg.append(shape("image", { href: tile.image, x, y, width: size, height: size, style: { imageRendering: "pixelated" } }));
  else svg.append(...tile.lines.map((heights, channel) => shape("polyline", { class: `signal-line channel-${channel % 8}`, fill: "none", "stroke-width": 1,
    points: heights.map((h, i) => `${x + (size * i) / Math.max(1, heights.length - 1)},${y + size - (size * h) / 1000}`).join(" ") })));
  svg.append(shape("rect", { x, y, width: size, height: size, fill: "none", "stroke-width": seen ? 2 : 1, style: { stroke: seen ? "var(--accent)" : "var(--line)" } }));
}

// A packet is drawn as large as the share of the link's time that it takes; lost ones stop on their way.
function drawPackets(svg, series, step, { deviceX, serverX, ys, middle }, part) {
  const up = step === "uplink";
  const size = up ? series.payload.first_bits : series.payload.down_bits;
  if (!size) return;
  const most = Math.max(...seriesHere().flatMap(({ payload: p }) => [p.first_bits, p.down_bits]));
  const side = 9 + 19 * Math.sqrt(size / most);
  const delivered = up ? (series.summary.attempted ? series.summary.delivered / series.summary.attempted : 1) : 1;
  ys.forEach((y, n) => {
    const lost = up && (n + 0.5) / DRAWN_DEVICES > delivered;
    const [fromX, fromY, toX, toY] = up ? [deviceX + 36, y, serverX - 46, middle] : [serverX - 46, middle, deviceX + 36, y];
    const along = Math.min(part, lost ? 0.62 : 1);
    const [x, at] = [fromX + along * (toX - fromX), fromY + along * (toY - fromY)];
    svg.append(shape("rect", { class: "packet", x: x - side / 2, y: at - side / 2, width: side, height: side, rx: 3, "fill-opacity": lost && part > 0.62 ? 0.35 : 1,
      style: { fill: ink(series) } }));
    if (lost && part > 0.62) svg.append(shape("path", { d: DELIVERIES.l.draw(x - 9, at - 9, 18, 18), "stroke-width": 2.4, style: { stroke: "var(--lost)", fill: "none" } }));
  });
  svg.append(shape("text", { class: "packet-label", x: (deviceX + serverX) / 2, y: 22, "text-anchor": "middle" },
    `${up ? (series.payload.seeds ? "first upload" : "upload") : "download"}: ${bits(size)}`));
}

function numbersOf(series, step) {
  const p = series.payload;
  const row = series.summary;
  if (step === "uplink" && p.first_bits) {
    const later = p.later_bits !== null && Math.round(p.later_bits) !== Math.round(p.first_bits) ? `, later ${bits(p.later_bits)}` : "";
    return ` A device sends ${bits(p.first_bits)}${later}; ${percent(row.attempted ? row.delivered / row.attempted : 1)} of the uploads arrived.`;
  }
  if (step === "downlink" && p.down_bits) return ` One multicast of ${bits(p.down_bits)} to all devices.`;
  if (step === "downlink" && p.down !== "nothing") return " In these runs nothing was sent down, because no upload arrived.";
  return "";
}
