// The devices of deployed runs: a table for each run.

const FLEET = [
  ["device", (one) => one.device], ["last answer", (one) => ago(one.last_seen)], ["version", (one) => one.version || "–"],
  ["round", (one) => one.round || "–"], ["uploads taken", (one) => one.taken], ["refused", (one) => one.refused],
  ["suspected", (one) => one.suspected], ["silent rounds", (one) => one.silent],
];

// Seconds since 1970 as a moment in UTC, which stays true while a page is open.
const ago = (time) => (time === null ? "never" : moment(new Date(1000 * time).toISOString()));

function drawFleet() {
  $("fleet").hidden = !data.fleets.length;
  $("fleet-body").replaceChildren(...data.fleets.flatMap((run) => [
    element("h3", {}, `${run.name}: ${run.rounds} of ${plural(run.of, "round")}`),
    run.without_upload ? element("p", {}, `No upload for ${plural(run.without_upload, "round")}.`) : "",
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Devices of ${run.name}` }, fleetTable(run)),
  ]));
  exportable("fleet-body", "Fleet", () => [["run", ...FLEET.map(([name]) => name)],
    ...data.fleets.flatMap((run) => run.devices.map((one) => [run.name, ...FLEET.map(([, value]) => value(one))]))]);
}

function fleetTable(run) {
  const head = element("tr", {}, ...FLEET.map(([name]) => element("th", { scope: "col" }, name)));
  const rows = run.devices.map((one) => element("tr", {}, ...FLEET.map(([, value]) => element("td", {}, String(value(one))))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}
