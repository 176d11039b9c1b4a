// What is measured over uplink traffic: who is both better and cheaper than all others.

function drawPareto() {
  const list = ranked(seriesHere());
  const box = $("pareto-chart");
  $("pareto").hidden = list.length < 2;
  if (list.length < 2) return;
  const dots = list.map((series) => ({ series, bits: series.summary.bits_up, score: series.summary.score,
    spread: series.summary.spread, heard: series.summary.delivered > 0 || !series.summary.attempted }));
  const best = frontOf(dots);
  paretoChart(box, dots, best);
  exportable("pareto-chart", named("Accuracy and uplink traffic"), () => [["protocol", "uplink bits", metric().name, "spread", "pareto"],
    ...dots.map((dot) => [dot.series.label, dot.bits, dot.score, dot.spread, best.includes(dot)])]);
}

// Dots that no other one beats: from few bits to many, each better than all before it. What devices reach
// although none of their uploads arrives was not bought with those bits.
function frontOf(dots) {
  const order = dots.filter((dot) => dot.heard).sort((a, b) => a.bits - b.bits || gain(b.score) - gain(a.score));
  return order.filter((dot, n) => order.slice(0, n).every((before) => gain(before.score) < gain(dot.score)));
}

function paretoChart(box, dots, best) {
  const width = widthOf(box);
  const height = width < 520 ? 300 : 360;
  const frame = { left: 74, right: width - 24, top: 14, bottom: height - 46 };
  const sent = dots.map(({ bits: sum }) => sum).filter((sum) => sum > 0);
  const none = dots.some(({ bits: sum }) => !sum);
  const logged = sent.length ? scaleTo(Math.min(...sent) / 1.6, Math.max(...sent) * 2.2, frame.left + (none ? 92 : 0), frame.right, true) : null;
  const x = (sum) => (sum > 0 ? logged(sum) : frame.left + 24);
  const values = dots.flatMap(({ score, spread }) => [score - spread, score + spread]);
  const [low, high] = scoreRange(values, true);
  const y = scaleTo(low, high, frame.bottom, frame.top);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": named("Accuracy over uplink traffic. ") +
    dots.map((dot) => `${dot.series.label}: ${scored(dot.score)} with ${dot.bits ? bits(dot.bits) : "no traffic"}`).join("; ") });
  const marks = [...(none ? [0] : []), ...(logged ? logTicks(logged.low, logged.high, Math.floor(width / 90)) : [])];
  drawAxes(svg, { x: Object.assign(x, { log: true }), y, frame, xTicks: marks, xFormat: (value) => (value ? bits(value) : "nothing sent"),
    xTitle: "uplink traffic of all devices (logarithmic)", yTitle: named("mean accuracy of devices") });
  if (best.length) svg.append(shape("path", { class: "front", d: stairs(best, x, y, frame), fill: "none" }));
  for (const dot of dots) drawDot(svg, dot, x, y);
  placeLabels(svg, dots, linesOf(best, x, y, frame), x, y, frame);
  box.replaceChildren(svg);
}

function stairs(best, x, y, frame) {
  const [first, ...rest] = best;
  return `M${x(first.bits)} ${y(first.score)}` + rest.map((dot) => `H${x(dot.bits)}V${y(dot.score)}`).join("") + `H${frame.right}`;
}

// The level parts of the front, which no name may cross.
function linesOf(best, x, y, frame) {
  return best.map((dot, n) => ({ left: x(dot.bits), right: n + 1 < best.length ? x(best[n + 1].bits) : frame.right,
    top: y(dot.score) - 2, bottom: y(dot.score) + 2 }));
}

function drawDot(svg, { series, bits: sum, score, spread, heard }, x, y) {
  const [cx, cy] = [x(sum), y(score)];
  svg.append(shape("path", { d: `M${cx} ${y(score - spread)}V${y(score + spread)}`, "stroke-width": 1.4, style: { stroke: ink(series) } }));
  svg.append(shape("circle", { class: "dot", cx, cy, r: 6, "stroke-width": 2.2,
    style: { stroke: ink(series), fill: heard ? ink(series) : "var(--card)" } },
  shape("title", {}, `${series.label}: ${scored(score)} ± ${inMetric(spread)}, ${sum ? bits(sum) : "nothing sent"}` +
    (heard ? "" : "; no upload arrived"))));
}

// A name goes to the first of some places around its dot that nothing else takes; dots in one place share a name.
function placeLabels(svg, dots, lines, x, y, frame) {
  const spots = [];
  for (const dot of dots) {
    const [cx, cy] = [x(dot.bits), y(dot.score)];
    const same = spots.find((one) => Math.hypot(one.cx - cx, one.cy - cy) < 9);
    if (same) same.titles.push(dot.series.title);
    else spots.push({ cx, cy, titles: [dot.series.title], series: dot.series });
  }
  const taken = [...lines, ...spots.map(({ cx, cy }) => ({ left: cx - 7, right: cx + 7, top: cy - 7, bottom: cy + 7 }))];
  for (const { cx, cy, titles, series } of spots) {
    const words = titles.join(", ");
    const wide = 6.7 * words.length;
    const places = [[11, -8], [11, 4], [-11 - wide, 4], [-11 - wide, -8], [11, 18], [-11 - wide, 18], [-wide / 2, -14], [-wide / 2, 24],
      [11, -26], [-11 - wide, -26], [11, 34], [-11 - wide, 34], [11, -42], [-11 - wide, -42], [11, 50]]
      .map(([dx, dy]) => ({ left: cx + dx, right: cx + dx + wide, top: cy + dy - 11, bottom: cy + dy + 3 }));
    const fits = (place) => place.left > frame.left && place.right < frame.right + 22 && place.top > 0 && place.bottom < frame.bottom &&
      taken.every((other) => place.right < other.left || place.left > other.right || place.bottom < other.top || place.top > other.bottom);
    const place = places.find(fits) ?? places[2];
    taken.push(place);
    if (Math.abs(place.bottom - 3 - cy) > 20)
      svg.append(shape("path", { class: "leader", d: `M${cx} ${cy}L${Math.max(place.left, Math.min(cx, place.right))} ${place.bottom - 6}`, style: { stroke: ink(series) } }));
    svg.append(shape("text", { class: "dot-label", x: place.left, y: place.bottom - 3 }, words));
  }
}
