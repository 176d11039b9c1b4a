// Axes: ticks, and where a value is on the paper.

function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(at * step);
  return found;
}

function logTicks(low, high, count) {
  const found = [];
  for (let decade = Math.floor(Math.log10(low)); decade <= Math.log10(high); decade++)
    for (const m of [1, 2, 5]) found.push(m * 10 ** decade);
  const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  return inside.length > count ? inside.filter((v) => /^1/.test(v.toExponential())) : inside;
}

// A scale from values to pixels; a logarithmic one needs low > 0.
function scaleTo(low, high, from, to, log = false) {
  const part = log
    ? (value) => Math.log(Math.max(value, low) / low) / Math.max(1e-9, Math.log(high / low))
    : (value) => (value - low) / (high - low || 1);
  return Object.assign((value) => from + part(value) * (to - from), { low, high, log });
}

// Scores with some room around them; zoomed scales leave out the first climb of an untrained model.
function scoreRange(values, zoomed) {
  if (!values.length) return [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (!isShare()) {
    const room = 0.06 * (high - low || Math.abs(high) || 1);
    return [zoomed ? low - room : Math.min(0, low), zoomed || high > 0 ? high + room : 0];
  }
  if (!zoomed) return [0, 1];
  const room = 0.06 * Math.max(high - low, 0.02);
  return [Math.max(0, low - room), Math.min(1, high + room)];
}

// Grid, ticks and titles of both axes.
function drawAxes(svg, { x, y, frame, xTitle, yTitle, xTicks, yFormat = scored, xFormat = short }) {
  const { left, right, top, bottom } = frame;
  for (const value of ticks(y.low, y.high, Math.max(3, Math.floor((bottom - top) / 55)))) {
    svg.append(shape("line", { class: "gridline", x1: left, x2: right, y1: y(value), y2: y(value) }));
    svg.append(shape("text", { class: "tick", x: left - 7, y: y(value) + 4, "text-anchor": "end" }, yFormat(value)));
  }
  const many = Math.max(3, Math.floor((right - left) / 85));
  for (const value of xTicks ?? (x.log ? logTicks(x.low, x.high, many) : ticks(x.low, x.high, many))) {
    svg.append(shape("line", { class: "gridline", x1: x(value), x2: x(value), y1: top, y2: bottom }));
    svg.append(shape("text", { class: "tick", x: x(value), y: bottom + 17, "text-anchor": "middle" }, xFormat(value)));
  }
  svg.append(shape("path", { class: "frame", d: `M${left} ${top}V${bottom}H${right}` }));
  svg.append(shape("text", { class: "axis x-title", x: (left + right) / 2, y: bottom + 37, "text-anchor": "middle" }, xTitle));
  const middle = (top + bottom) / 2;
  svg.append(shape("text", { class: "axis y-title", x: 13, y: middle, "text-anchor": "middle",
    transform: `rotate(-90 13 ${middle})` }, yTitle));
}
