// The table of results of one setting: the first click on a heading puts the best first.

const share = (row) => (row.attempted ? row.delivered / row.attempted : null);
// Name, heading, value, words, remark; and whether more or less is better, or what the metric says.
const COLUMNS = [
  ["score", "accuracy of\ndevices", (r) => r.score, (r) => `${inMetric(r.score)} ± ${scored(r.spread)}`,
    (r) => [r.measured < r.devices ? `${whole(r.measured)} of ${whole(r.devices)} measured` : null,
      r.far === null ? null : `near ${scored(r.near)}, far ${scored(r.far)}`].filter(Boolean).join("; ") || null, "metric"],
  ["server", "server\nmodel", (r) => r.server, (r) => scored(r.server), null, "metric"],
  ["delivered", "uploads\ndelivered", share, (r) => percent(share(r)), (r) => (r.attempted ? `${whole(r.delivered)} of ${whole(r.attempted)}` : null), "more"],
  ["bits_up", "uplink\ntraffic", (r) => r.bits_up, (r) => bits(r.bits_up), null, "less"],
  ["bits_down", "downlink\ntraffic", (r) => r.bits_down, (r) => bits(r.bits_down), null, "less"],
  ["seconds", "total\ntime", (r) => r.communication + r.computing, (r) => seconds(r.communication + r.computing),
    (r) => `${seconds(r.communication)} on air`, "less"],
  ["joules", "energy of a\ndevice per round", (r) => r.joules, (r) => joules(r.joules),
    (r) => (r.battery_rounds === null ? null : `battery: ${roundsWords(r.battery_rounds)}`), "less"],
  ["converged_round", "stopping\nrule fired", (r) => r.converged_round, (r) => `round ${r.converged_round}`,
    (r) => seconds(r.converged_seconds) + (r.converged_runs < r.runs ? `, ${r.converged_runs} of ${r.runs} seeds` : ""), "less"],
];

const moreIsBetter = (better) => (better === "metric" ? gain(1) > 0 : better === "more");
const roundsWords = (rounds) => (rounds >= 1e6 ? `${short(rounds / 1e6)} M rounds` : rounds >= 1e4 ? `${short(rounds / 1e3)} k rounds` : `${short(rounds)} rounds`);

function drawSummary() {
  const base = baselineIn(settingNumber());
  const columns = [COLUMNS[0], ...(base ? [differenceColumn(base)] : []), ...furtherColumns(), ...COLUMNS.slice(1)];
  const rows = sorted(seriesHere(), columns);
  const head = element("tr", {}, element("th", { scope: "col" }, "protocol"), ...columns.map(([name, words, , , , better]) => {
    const falling = moreIsBetter(better) !== Boolean(chosen.reverse);
    return element("th", { scope: "col", "aria-sort": chosen.sort === name ? (falling ? "descending" : "ascending") : null },
      element("button", { type: "button", title: "Sort", on: { click: () => sortBy(name) }, "data-column": name }, named(words)));
  }));
  const body = rows.map((series) => element("tr", { class: series.ranked ? null : "unranked" },
    element("th", { scope: "row" }, swatch(series), element("span", { class: "name" }, series.title), stateNote(series)),
    ...columns.map((one) => summaryCell(series, one))));
  $("summary-table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  const best = view().settings[settingNumber()].best;
  const close = best.close.map((number) => view().series[number].title);
  $("summary-note").textContent = named("Accuracy") + ` after the last local phase, ± ${view().spread}. A star marks the best value of a column.` +
    simplePredictions() +
    (close.length ? ` Within the spread of the ${isShare() ? "most accurate" : "best"}: ${listed(close)}.` : "");
  exportable("summary-scroll", "Results", () => [["protocol", ...columns.map(([name]) => (name === "score" ? metric().name : name)), "spread", "attempted"],
    ...rows.map((one) => [one.label, ...columns.map(([, , value]) => value(one.summary, one)), one.summary.spread, one.summary.attempted])]);
  markOverflow($("summary-scroll"));
}

// Other metrics of the task, and what simple predictions reach; of labels there are none.
function furtherColumns() {
  return (seriesHere()[0]?.summary.further ?? []).map(({ metric: one }, place) => [`further-${place}`, one.name,
    (r) => r.further[place]?.score ?? null, (r) => `${(one.factor * r.further[place].score).toFixed(one.digits)} ${one.unit}`.trim(),
    null, one.better === "higher" ? "more" : "less"]);
}

function simplePredictions() {
  const found = Object.entries(seriesHere()[0]?.summary.baselines ?? {});
  return found.length ? ` Simple predictions: ${found.map(([name, value]) => `${name} ${scored(value)}`).join(", ")}.` : "";
}

function stateNote(series) {
  const same = several() && series.settings.length > 1 ? `same in ${series.settings.length} settings` : null;
  const open = series.ranked ? null : `* ${STATES[series.state]}, not ranked`;
  const note = [open, same, series.summary.training].filter(Boolean).join("; ");
  return note ? element("small", {}, note) : null;
}

function differenceColumn(base) {
  const found = (series) => (series === base ? null : against(series, base));
  return ["difference", `${isShare() ? "points" : "difference"} over\n${base.title}`, (r, series) => found(series)?.mean ?? null,
    (r, series) => points(found(series).mean) + (found(series).spread === null ? "" : ` ± ${inMetric(found(series).spread)}`),
    (r, series) => (found(series)?.seeds > 1 ? `${found(series).seeds} paired seeds` : null), "metric"];
}

function sorted(list, columns) {
  const column = columns.find(([name]) => name === chosen.sort);
  if (!column) return list;
  const sign = moreIsBetter(column[5]) !== Boolean(chosen.reverse) ? -1 : 1;
  const value = (series) => column[2](series.summary, series);
  const known = list.filter((series) => value(series) !== null);
  return [...known.sort((a, b) => sign * (value(a) - value(b))), ...list.filter((series) => value(series) === null)];
}

function summaryCell(series, [name, , value, words, remark]) {
  const row = series.summary;
  if (value(row, series) === null || value(row, series) === undefined) return element("td", {}, "–");
  const best = view().settings[settingNumber()].best[name]?.includes(view().series.indexOf(series));
  const said = element("span", { class: best ? "best" : null }, words(row, series));
  if (best) said.append(element("span", { class: "hidden" }, " (best)"));
  const more = remark?.(row, series);
  return element("td", {}, said, more ? element("small", {}, more) : null);
}

function sortBy(name) {
  remember({ reverse: chosen.sort === name && !chosen.reverse ? "yes" : "", sort: name });
  drawSummary();
  $("summary-table").querySelector(`[data-column="${name}"]`).focus();
}

// A shade and a line of words where a table continues beyond the edge.
function markOverflow(box) {
  const mark = () => {
    const over = box.scrollWidth > box.clientWidth + 1;
    box.parentElement.classList.toggle("overflows", over && box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
    box.parentElement.querySelector(".scroll-cue").hidden = !over;
  };
  box.onscroll = mark;
  mark();
}
