// Values at the pointer, or at a mark that the arrow keys move. Only points that were measured are ever shown.

function readValues(box, svg, lines, { x, y, frame, width }, options) {
  const rule = shape("line", { class: "frame", y1: frame.top, y2: frame.bottom, visibility: "hidden" });
  const marks = shape("g");
  svg.append(rule, marks);
  const tip = element("div", { class: "tip", hidden: true });
  box.append(tip);
  const stops = [...new Set(lines.flatMap((line) => measuredPlaces(line).map((i) => line.x[i])))]
    .filter(x.usable).sort((a, b) => a - b);
  const hide = () => { tip.hidden = true; rule.setAttribute("visibility", "hidden"); marks.replaceChildren(); };
  const show = (stop, spoken) => {
    const rows = lines.map((line) => ({ line, i: lastMeasured(line, stop) })).filter(({ i }) => i !== null)
      .sort((a, b) => gain(b.line.mean[b.i]) - gain(a.line.mean[a.i]));
    if (!rows.length) return hide();
    rule.setAttribute("x1", x(stop));
    rule.setAttribute("x2", x(stop));
    rule.setAttribute("visibility", "visible");
    marks.replaceChildren(...rows.map(({ line, i }) => shape("circle", { class: "mark", cx: x(line.x[i]), cy: y(line.mean[i]),
      r: 4.5, "stroke-width": 2, style: { fill: ink(line), stroke: "var(--card)" } })));
    const cells = rows.flatMap(({ line, i }) => [swatch(line), element("span", {}, line.label),
      element("span", {}, valueWords(line, i, options)), element("span", { class: "muted" }, options.where(line, i))]);
    tip.replaceChildren(element("div", { class: "muted" }, `up to ${options.xWords(stop)}`), element("div", { class: "row" }, ...cells));
    tip.hidden = false;
    const half = tip.offsetWidth + 14;
    const place = x(stop);
    tip.style.left = `${Math.max(0, place + half > width ? place - half : place + 14)}px`;
    tip.style.top = `${frame.top}px`;
    if (spoken) $("said").textContent = `${options.xWords(stop)}: ` + rows.map(({ line, i }) =>
      `${line.label} ${options.yFormat(line.mean[i])}`).join(", ");
    return undefined;
  };
  const nearest = (pixel) => stops.reduce((best, stop) => (Math.abs(x(stop) - pixel) < Math.abs(x(best) - pixel) ? stop : best), stops[0]);
  svg.addEventListener("pointermove", (event) => show(nearest(event.clientX - svg.getBoundingClientRect().left)));
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  let at = stops.length - 1;
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: stops.length - 1 };
    if (event.key === "Escape") hide();
    if (!(event.key in moves)) return;
    event.preventDefault();
    at = Math.min(stops.length - 1, Math.max(0, moves[event.key]));
    show(stops[at], true);
  });
}

const measuredPlaces = (line) => line.x.map((_, i) => i).filter((i) => !line.measured || line.measured[i]);

// The newest measured point up to x; null before the first, and beyond the end of the line.
function lastMeasured(line, x) {
  const near = 1e-9 * Math.max(1, Math.abs(x));
  if (x > line.x.at(-1) + near) return null;
  const before = measuredPlaces(line).filter((i) => line.x[i] <= x + near);
  return before.length ? before.at(-1) : null;
}

const valueWords = (line, i, options) => options.yFormat(line.mean[i]) +
  (line.seeds && line.seeds[i] > 1 ? ` (${options.yFormat === scored ? inMetric(line.low[i]) : inPercent(line.low[i])} to ${options.yFormat === scored ? inMetric(line.high[i]) : inPercent(line.high[i])})` : "");
