// The top of the page: what went wrong, what the runs come to, and where each of them stands.

function drawTop() {
  $("title").textContent = data.title;
  document.title = data.title;
  $("subtitle").textContent = data.settings.length === 1 ? data.settings[0].description
    : data.settings.length ? plural(data.settings.length, "setting") : "";
  drawFindings();
  $("conclusion").textContent = data.settings.length ? view().conclusion : "";
  $("conclusion").hidden = !$("conclusion").textContent;
  drawProgress();
}

function drawFindings() {
  const found = [...data.findings, ...(data.notes.length ? [{ title: "Runs left out, entirely or in part", lines: data.notes }] : [])];
  $("findings").hidden = !found.length;
  const signature = JSON.stringify(found);
  if ($("findings").dataset.shown === signature) return;
  $("findings").dataset.shown = signature;
  $("findings").replaceChildren(element("h2", {}, "Before you read the results"), ...found.flatMap(({ title, lines }) => [
    element("h3", {}, title), element("ul", {}, ...lines.map((line) => element("li", {}, line)))]));
}

const STATES = { finished: "finished", running: "running", stopped: "stopped", failed: "failed", waiting: "waiting", "not started": "not started" };

function drawProgress() {
  const runs = data.states;
  const open = runs.filter((run) => run.state !== "finished");
  const box = $("progress");
  box.hidden = !(open.length || (live && !runs.length));
  if (box.hidden) return;
  const counted = Object.keys(STATES).map((state) => [state, runs.filter((run) => run.state === state).length]).filter(([, n]) => n);
  const head = runs.length ? `${runs.length - open.length} of ${runs.length} runs finished` : "Waiting for the first run";
  const rest = counted.filter(([state]) => state !== "finished").map(([state, n]) => `${n} ${state}`).join(", ");
  $("progress-h").textContent = head + (rest ? `: ${rest}` : "");
  $("progress-note").textContent = !open.length ? "" : chosen.include
    ? "Unfinished runs are included in rankings and means, with the rounds they have."
    : "Unfinished runs are left out of rankings and means; a protocol without a finished run is marked with *.";
  $("include").closest("label").hidden = !data.views.all;
  $("include").checked = Boolean(chosen.include);
  const begun = open.filter((run) => run.done || run.state === "failed");
  const ahead = ["waiting", "not started"].map((state) => [state, open.filter((run) => !begun.includes(run) && run.state === state)]).filter(([, list]) => list.length);
  $("progress-ahead").replaceChildren(...ahead.map(([state, list]) => element("p", { class: "muted" },
    `${state === "waiting" ? "Waiting" : "Not started"}: ${namesOf(list)}.`)));
  const places = new Set(runs.map((run) => run.place)).size;
  $("progress-runs").replaceChildren(...begun.map((run) => {
    const where = places > 1 ? ` in ${run.place}` : "";
    const words = `${run.protocol}, seed ${run.seed}${where}: round ${run.done} of ${run.planned}`;
    const more = [STATES[run.state], run.updated ? `last update ${moment(run.updated)}` : null].filter(Boolean).join(", ");
    return element("div", { class: `state-${run.state.replace(" ", "-")}` }, element("div", {}, words),
      element("progress", { max: run.planned, value: run.done, "aria-label": words }), element("div", { class: "muted" }, more));
  }));
}

// Runs by protocol and seed; of several settings, how many of each protocol.
function namesOf(runs) {
  if (!several()) return runs.map((run) => `${run.protocol}, seed ${run.seed}`).join("; ");
  const count = new Map();
  for (const run of runs) count.set(run.protocol, (count.get(run.protocol) ?? 0) + 1);
  return [...count].map(([protocol, n]) => `${protocol} (${plural(n, "run")})`).join(", ");
}

function drawChoices() {
  select("setting", data.settings.map((one, number) => [String(number), one.label]), String(settingNumber()),
    (value) => { remember({ setting: value, seed: "", round: "" }); draw(); });
  const all = [...new Map(view().series.filter((one) => one.ranked).map((one) => [one.protocol, one.title]))];
  select("baseline", [["", "nothing"], ...all], chosen.baseline, (value) => { remember({ baseline: value }); draw(); });
  $("baseline").hidden = all.length < 2;
  $("choices").hidden = $("setting").hidden && $("baseline").hidden;
}

function drawTiles() {
  $("tiles").replaceChildren(...view().settings[settingNumber()].tiles.map((tile) => element("div", { class: "tile" },
    element("div", { class: "question" }, tile.question),
    element("div", { class: tile.answer.length > 22 ? "answer long" : "answer" }, tile.answer),
    element("div", { class: "remark" }, tile.remark))));
  $("tiles").hidden = !$("tiles").children.length;
}

function drawFooter() {
  const { date, version, machine } = data.made;
  $("footer").textContent = `Generated ${date} by mix2fld ${version} on ${machine}. All times of runs are simulated, not wall-clock times.`;
}

// A lost server is said where nobody can miss it.
function connection(lost) {
  document.body.dataset.state = lost ? "lost" : "fresh";
  $("lost").hidden = !lost;
}
