// The page: what is chosen, and each part drawn from the data. Live pages fetch the data again.

const chosen = {
  axis: "seconds", measure: "devices", scale: "auto", share: "seconds", direction: "up",
  setting: "0", seed: null, round: null, hidden: new Set(), sort: null, down: true,
};
let data = null;

const PARTS = [["short", "In short"], ["summary", "Results"], ["curves", "Learning curves"],
  ["time", "Time"], ["payload", "Bits"], ["detail", "Devices"], ["sees", "Samples"], ["again", "Run it again"]];
const AXIS_NAMES = { seconds: "seconds", air: "seconds on air", rounds: "rounds", bits: "uplink bits" };
const UNITS = { seconds: "s", air: "s on air", rounds: "rounds", bits: "Mbit up" };
const MEASURE_NAMES = { devices: "all devices", reference: "reference device", server: "server's model" };

function draw() {
  $("title").textContent = data.title;
  document.title = data.title;
  $("subtitle").textContent = data.settings.length === 1 ? data.settings[0].description
    : data.settings.length ? `${data.settings.length} settings` : "";
  drawProgress();
  const any = data.series.length > 0;
  for (const [id] of PARTS) $(id).hidden = !any;
  $("contents").hidden = !any;
  if (any) for (const part of [drawTiles, drawSummary, drawCurves, drawTime, drawPayload, drawDetail, drawGallery, drawAgain]) part();
  $("footer").textContent = `Made by mix2fld ${data.version}. Seconds are simulated, never wall time.`;
}

function drawProgress() {
  const runs = [...data.series.flatMap((one) => one.runs), ...data.waiting];
  const going = runs.filter((run) => !run.finished);
  const box = $("progress");
  box.hidden = !(going.length || (live && !runs.length));
  if (box.hidden) return;
  const head = runs.length ? `${runs.length - going.length} of ${runs.length} runs finished` : "Waiting for the first run";
  box.replaceChildren(element("h2", {}, head), element("div", { class: "under-way" }, ...going.map((run) => {
    const words = `${run.protocol}, seed ${run.seed}: round ${run.done} of ${run.planned}`;
    return element("div", {}, words, element("progress", { max: run.planned, value: run.done, "aria-label": words }));
  })));
}

function drawTiles() {
  $("short").replaceChildren(...data.tiles.map((tile) => element("div", { class: "tile" },
    element("div", { class: "question" }, tile.question),
    element("div", { class: tile.answer.length > 22 ? "answer long" : "answer" }, tile.answer),
    element("div", { class: "remark" }, tile.remark))));
}

const share = (row) => (row.attempted ? row.delivered / row.attempted : null);
const COLUMNS = [
  ["accuracy", "accuracy of\nall devices", (r) => r.accuracy, (r) => `${(100 * r.accuracy).toFixed(2)} ± ${(100 * r.spread).toFixed(2)}`],
  ["server", "server's\nmodel", (r) => r.server, (r) => (100 * r.server).toFixed(2)],
  ["converged_seconds", "time to\nconverge", (r) => r.converged_seconds, (r) => seconds(r.converged_seconds),
    (r) => (r.converged_round === null ? null : `round ${r.converged_round}` + (r.converged_runs < r.runs ? `, ${r.converged_runs} of ${r.runs} seeds` : ""))],
  ["seconds", "time of\na run", (r) => r.communication + r.computing, (r) => seconds(r.communication + r.computing),
    (r) => `${seconds(r.communication)} on air`],
  ["bits_up", "sent up", (r) => r.bits_up, (r) => bits(r.bits_up)],
  ["bits_down", "sent down", (r) => r.bits_down, (r) => bits(r.bits_down)],
  ["delivered", "uploads\narrived", share, (r) => percent(share(r), 0), (r) => (r.attempted ? `${r.delivered} of ${r.attempted}` : null)],
];

function drawSummary() {
  const rows = data.series.map((series, number) => ({ series, number }));
  const column = COLUMNS.find(([name]) => name === chosen.sort);
  if (column) {
    const value = ({ series }) => column[2](series.summary) ?? (chosen.down ? -Infinity : Infinity);
    rows.sort((a, b) => (chosen.down ? value(b) - value(a) : value(a) - value(b)));
  }
  const head = element("tr", {}, element("th", { scope: "col" }, "protocol"), ...COLUMNS.map(([name, words]) =>
    element("th", { scope: "col", "aria-sort": chosen.sort === name ? (chosen.down ? "descending" : "ascending") : null },
      element("button", { type: "button", title: "Sort", on: { click: () => sortBy(name) }, "data-column": name }, words))));
  const body = rows.map(({ series, number }) => element("tr", {},
    element("th", { scope: "row" }, swatch(series), element("span", { class: "name" }, series.title),
      data.settings.length > 1 ? element("small", {}, data.settings[series.setting].label) : null),
    ...COLUMNS.map((one) => summaryCell(series.summary, number, one))));
  $("summary-table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  const close = data.best.close.map((number) => data.series[number].label);
  const seeds = Math.max(...data.series.map((series) => series.summary.runs));
  $("summary-note").textContent = `Accuracy in %, ± standard deviation over ${seeds > 1 ? "seeds" : "devices"}. ` +
    "A star marks the best of a column." +
    (close.length ? ` Within the spread of the most accurate: ${close.join(", ")}.` : "");
}

function summaryCell(row, number, [name, , value, words, remark]) {
  if (value(row) === null || value(row) === undefined) return element("td", {}, "–");
  const best = data.best[name]?.includes(number);
  const said = element("span", { class: best ? "best" : null }, words(row));
  if (best) said.append(element("span", { class: "hidden" }, " (best)"));
  const more = remark?.(row);
  return element("td", {}, said, more ? element("small", {}, more) : null);
}

function sortBy(name) {
  chosen.down = chosen.sort === name ? !chosen.down : true;
  chosen.sort = name;
  drawSummary();
  $("summary-table").querySelector(`[data-column="${name}"]`).focus();
}

function drawCurves() {
  const again = (key) => (value) => { chosen[key] = value; drawCurves(); };
  choose("axis", Object.keys(data.axes).map((key) => [key, AXIS_NAMES[key]]), chosen.axis, again("axis"));
  const measured = Object.keys(data.measures).filter((key) => data.series.some((s) => s.curves[key][chosen.axis]));
  choose("measure", measured.map((key) => [key, MEASURE_NAMES[key]]), chosen.measure, again("measure"));
  choose("scale", [["auto", "zoomed"], ["whole", "0 to 100 %"], ["log", "logarithmic"]], chosen.scale, again("scale"));
  drawSwitches();
  const lines = data.series
    .filter((series) => !chosen.hidden.has(series.label))
    .map((series) => ({ ...series, ...series.curves[chosen.measure][chosen.axis], longLabel: data.settings.length > 1 }))
    .filter((line) => line.x?.length);
  lineChart($("curve-chart"), lines, {
    axis: data.axes[chosen.axis], measure: data.measures[chosen.measure], unit: UNITS[chosen.axis],
    whole: chosen.scale === "whole", log: chosen.scale === "log" || (chosen.axis === "bits" && chosen.scale === "auto"),
    empty: data.series.length > chosen.hidden.size ? "None of the chosen protocols has this accuracy." : "Everything is switched off.",
  });
}

function drawSwitches() {
  const box = $("switches");
  const signature = JSON.stringify(data.series.map((series) => series.label));
  if (box.dataset.options === signature) return;
  box.dataset.options = signature;
  for (const old of box.querySelectorAll("label")) old.remove();
  for (const series of data.series) {
    const input = element("input", { type: "checkbox", value: series.label });
    input.checked = !chosen.hidden.has(series.label);
    input.addEventListener("change", () => {
      if (input.checked) chosen.hidden.delete(series.label);
      else chosen.hidden.add(series.label);
      drawCurves();
    });
    box.append(element("label", {}, input, swatch(series), series.label));
  }
}

function drawTime() {
  choose("share", [["seconds", "seconds"], ["share", "share of the time"]], chosen.share, (value) => { chosen.share = value; drawTime(); });
  const words = { uplink: "uplink", downlink: "downlink", device: "devices compute", server: "server computes" };
  const parts = Object.keys(data.parts);
  $("time-key").replaceChildren(...parts.map((part) => element("span", {},
    element("i", { style: { background: both(data.parts[part]) } }), words[part])));
  const total = (series) => parts.reduce((sum, part) => sum + series.seconds[part], 0);
  const longest = Math.max(...data.series.map(total), 1e-12);
  $("time-chart").replaceChildren(...data.series.map((series) => {
    const all = total(series);
    const scale = chosen.share === "share" ? all || 1 : longest;
    const said = parts.map((part) => `${words[part]} ${seconds(series.seconds[part])}`).join(", ");
    const bar = element("div", { class: "bar", role: "img", "aria-label": `${series.label}: ${said}`, title: said },
      ...parts.filter((part) => series.seconds[part] > 0).map((part) => element("i", {
        "data-part": part, title: `${words[part]}: ${seconds(series.seconds[part])} (${percent(series.seconds[part] / all, 0)})`,
        style: { width: `${(100 * series.seconds[part]) / scale}%`, background: both(data.parts[part]) },
      })));
    return element("div", { class: "bar-row" }, element("span", {}, series.label), bar, element("span", { class: "total" }, seconds(all)));
  }));
}

function drawPayload() {
  const most = Math.max(...data.series.flatMap(({ payload: p }) => [p.first_bits, p.later_bits ?? 0, p.down_bits]), 10);
  const size = (value) => (value > 0 ? Math.max(2, (100 * Math.log10(value)) / Math.log10(most)) : 0);
  $("payload-chart").replaceChildren(...data.series.map((series) => {
    const p = series.payload;
    const differs = p.later_bits !== null && Math.round(p.later_bits) !== Math.round(p.first_bits);
    const up = p.first_bits ? [[`up${differs ? ", first" : ""}: ${p.up}${p.seeds ? " + samples" : ""}`, p.first_bits],
      ...(differs ? [[`up, later: ${p.up}`, p.later_bits]] : [])] : [];
    const lines = [...up, ...(p.down_bits ? [[`down: ${p.down}`, p.down_bits]] : [])];
    return element("div", { class: "send" }, element("div", {}, swatch(series), element("b", {}, series.label)),
      ...(lines.length ? lines : [["nothing is sent", 0]]).map(([words, value]) => element("div", { class: "line" },
        element("span", {}, words), element("span", { class: "track" }, element("i", { style: { width: `${size(value)}%`, background: ink(series) } })),
        element("b", {}, value ? bits(value) : "–"))));
  }));
}

function drawDetail() {
  const again = (key) => (value) => { chosen[key] = value; drawDetail(); drawGallery(); };
  if (!data.settings[chosen.setting]) chosen.setting = "0";
  choose("setting", data.settings.map((one, number) => [String(number), one.label]), chosen.setting, again("setting"));
  const seeds = data.settings[chosen.setting].seeds.map(String);
  if (!seeds.includes(chosen.seed)) chosen.seed = seeds[0];
  choose("seed", seeds.map((seed) => [seed, seed]), chosen.seed, again("seed"));
  const shown = data.series
    .filter((series) => String(series.setting) === chosen.setting)
    .flatMap((series) => series.runs.filter((run) => String(run.seed) === chosen.seed).map((run) => ({ series, run })));
  drawDeliveries(shown);
  drawDevices(shown);
  drawLabels();
}

function drawDeliveries(shown) {
  choose("direction", [["up", "uplink"], ["down", "downlink"]], chosen.direction, (value) => { chosen.direction = value; drawDeliveries(shown); });
  const kinds = [["var(--good)", "arrived"], ["", "lost (crossed)"], ["", "nothing sent (dot)"]];
  $("delivery-key").replaceChildren(...kinds.map(([colour, words], number) => element("span", {},
    number ? element("span", { "aria-hidden": "true", style: { color: number === 1 ? "var(--lost)" : "", marginRight: "6px" } }, number === 1 ? "✕" : "·")
      : element("i", { style: { background: colour } }), words)));
  $("delivery-chart").replaceChildren(...shown.map(({ series, run }) => deliveryGrid(series, run, chosen.direction)));
}

function drawDevices(shown) {
  const last = Math.max(1, ...shown.flatMap(({ run }) => run.rounds));
  const slider = $("round");
  slider.max = last;
  const now = chosen.round === null ? last : Math.min(chosen.round, last);
  slider.value = now;
  slider.oninput = () => { chosen.round = Number(slider.value) === last ? null : Number(slider.value); drawDevices(shown); };
  $("round-shown").textContent = `${now} of ${last}`;
  stripChart($("device-chart"), shown.map(({ series, run }) => {
    const upto = run.rounds.filter((round) => round <= now).length;
    return { series, values: run.accuracy[Math.max(0, upto - 1)] };
  }));
}

function drawLabels() {
  const { labels, not_at_hand: missing } = data.settings[chosen.setting];
  const counts = labels[chosen.seed];
  if (counts) heatMap($("label-chart"), counts);
  else $("label-chart").replaceChildren(element("p", { class: "empty" }, missing ? `Not shown: ${missing}.` : "Shown for the first ten seeds only."));
}

function drawGallery() {
  const { gallery, not_at_hand: missing } = data.settings[chosen.setting];
  const say = (words) => $("sees-body").replaceChildren(element("p", { class: "muted" }, words));
  if (missing) return say(`Not shown: ${missing}.`);
  if (!gallery) return say("No samples: these protocols send weights or outputs only.");
  if (!gallery.cards.length) return say(gallery.kind === "waiting" ? "The samples that arrived so far give no pair to unmix yet." : "No samples have arrived yet.");
  const ratios = gallery.ratios.map(short).join(" : ");
  const words = {
    raw: `${gallery.protocol} sends samples as they are: the server sees them.`,
    mixed: `Devices send mixes of ${gallery.ratios.length} samples with different labels, in the ratio ${ratios}. The server sees the outlined pictures only.`,
    inverse: `Devices send mixes of ${gallery.ratios.length} samples with different labels, in the ratio ${ratios}. The server unmixes mixes of different devices into samples with one label each. It sees the outlined pictures only.`,
  }[gallery.kind];
  const raw = gallery.kind === "raw";
  $("sees-body").replaceChildren(
    element("p", { class: "muted" }, `${words} ${gallery.protocol}, seed ${gallery.seed}; samples of ${gallery.devices} devices arrived.`),
    raw ? "" : element("p", { class: "muted" }, "Privacy of a sample is the natural logarithm of its smallest distance (L2, pixels from 0 to 255) to a raw sample that it was made of: more is farther from anything that a device holds."),
    raw ? "" : privacyTable(gallery.privacy),
    element("div", { class: "cards" }, ...gallery.cards.map((card) => sampleCard(card, gallery))));
  return undefined;
}

function privacyTable(privacy) {
  const columns = [["min", "least"], ["q05", "5 %"], ["median", "median"], ["mean", "mean"], ["q95", "95 %"]];
  const names = { mixed: "mixed-up", inverse: "inversely mixed-up" };
  const table = element("table", { class: "facts" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "sample privacy"), ...columns.map(([, words]) => element("th", { scope: "col" }, words)))),
    element("tbody", {}, ...Object.entries(privacy).map(([kind, values]) => element("tr", {}, element("th", { scope: "row" }, names[kind]),
      ...columns.map(([key]) => element("td", {}, values[key].toFixed(2)))))));
  return element("div", { class: "scroll" }, table);
}

function sampleCard(card, gallery) {
  const parts = [];
  for (const mix of card.mixes) {
    parts.push(element("h4", {}, mix.raw.length ? `device ${mix.device} mixes` : `device ${mix.device} sends`));
    const row = mix.raw.flatMap((tile, place) => [
      place ? element("span", { class: "sign", "aria-hidden": "true" }, "+") : null,
      picture(tile, false, `${short(gallery.ratios[place])} × label ${tile.labels[0]}`)]);
    if (mix.raw.length) row.push(element("span", { class: "sign", "aria-hidden": "true" }, "="));
    row.push(picture(mix.mixed, true, `label ${mix.mixed.labels.join(" + ")}`));
    parts.push(element("div", { class: "tiles-row" }, ...row.filter(Boolean)));
  }
  if (card.made.length)
    parts.push(element("h4", {}, "the server unmixes them into"), element("div", { class: "tiles-row" },
      ...card.made.map((tile) => picture(tile, true, `label ${tile.labels[0]}`))));
  return element("div", { class: "sample-card" }, ...parts);
}

function picture(tile, seen, words) {
  const privacy = tile.privacy === undefined ? null : tile.privacy === null ? "no privacy" : `privacy ${tile.privacy.toFixed(2)}`;
  return element("figure", { class: seen ? "sample seen" : "sample" },
    element("img", { src: tile.image, alt: `${seen ? "seen by the server" : "kept on the device"}: ${words}`, width: 84, height: 84 }),
    element("figcaption", {}, element("div", {}, words), privacy ? element("div", { class: "muted" }, privacy) : null));
}

function drawAgain() {
  const parts = data.settings.flatMap((one) => [
    data.settings.length > 1 ? element("h3", {}, one.label) : null,
    element("pre", { class: "wrap command" }, one.command), copyButton(one.command),
    element("details", {}, element("summary", {}, "All settings, resolved"), element("pre", {}, one.config)),
  ]);
  const notes = data.notes.map((note) => element("li", {}, note));
  if (notes.length) parts.push(element("h3", {}, "Left out"), element("ul", { class: "muted" }, ...notes));
  const signature = JSON.stringify([data.settings.map((one) => [one.command, one.config]), data.notes]);
  if ($("again-body").dataset.shown === signature) return;
  $("again-body").dataset.shown = signature;
  $("again-body").replaceChildren(...parts.filter(Boolean));
}

function copyButton(words) {
  const button = element("button", { type: "button", class: "plain" }, "Copy the command");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(words);
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.previousElementSibling);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected: copy with the keyboard";
    }
  });
  return button;
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  choose("theme", [["auto", "auto"], ["light", "light"], ["dark", "dark"]], theme, setTheme);
}

const live = document.body.dataset.live === "true";

async function refresh() {
  try {
    const answer = await fetch("data.json", { cache: "no-cache" });
    const text = answer.ok ? await answer.text() : null;
    if (text && text !== refresh.last) {
      refresh.last = text;
      data = JSON.parse(text);
      draw();
    }
    document.body.dataset.state = "fresh";
  } catch {
    document.body.dataset.state = "lost";
    $("footer").textContent = "mix2fld watch does not answer any more; this is what it last sent.";
  }
  setTimeout(refresh, 1500);
}

function start() {
  setTheme("auto");
  $("contents").append(...PARTS.map(([id, words]) => element("a", { href: `#${id}` }, words)));
  let width = innerWidth;
  addEventListener("resize", () => {
    if (data && innerWidth !== width) { width = innerWidth; draw(); }
  });
  if (live) {
    $("title").textContent = "Reading runs…";
    refresh();
  } else {
    data = JSON.parse($("data").textContent);
    draw();
  }
}

start();
