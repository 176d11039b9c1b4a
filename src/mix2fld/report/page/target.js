// Time and traffic until the devices reach an accuracy that the reader chooses.

function drawTarget() {
  const list = ranked(seriesHere());
  const peaks = list.map((series) => Math.max(...lineOf(series, "devices", "seconds").mean));
  $("target").hidden = !list.length;
  if (!list.length) return;
  const slider = $("target-slider");
  const [low, high] = [Math.floor(100 * Math.min(...list.map((s) => lineOf(s, "devices", "seconds").mean[0]))), Math.floor(100 * Math.max(...peaks))];
  Object.assign(slider, { min: low, max: high, step: 0.5 });
  const usual = Math.floor(100 * [...peaks].sort((a, b) => a - b)[Math.floor(peaks.length / 2)]);
  const goal = Math.min(high, Math.max(low, chosen.target ? Number(chosen.target) : usual));
  slider.value = goal;
  slider.setAttribute("aria-valuetext", `${goal.toFixed(1)} %`);
  $("target-shown").textContent = `${goal.toFixed(1)} %`;
  slider.oninput = () => { remember({ target: slider.value }); drawTarget(); };
  const rows = list.map((series, n) => ({ series, peak: peaks[n], found: reaches(series, goal / 100) }))
    .sort((a, b) => (a.found?.seconds ?? Infinity) - (b.found?.seconds ?? Infinity) || b.peak - a.peak);
  const lost = ({ summary }) => summary.attempted > 0 && !summary.delivered;
  const bar = (key, words) => rows.map(({ series, peak, found }) => ({ series, label: series.title,
    parts: [{ value: found?.[key] ?? 0, colour: ink(series), title: series.label }],
    words: found ? words(found) + (lost(series) ? ", no upload arrived" : "") : `not reached (at most ${percent(peak)})` }));
  barChart($("target-time"), bar("seconds", (found) => `${seconds(found.seconds)}, round ${found.round}`), { label: `Time to ${goal} %` });
  barChart($("target-bits"), bar("bits", (found) => (found.bits ? bits(found.bits) : "no uplink traffic")), { label: `Uplink traffic to ${goal} %` });
  const table = () => [["protocol", "target", "seconds", "uplink bits", "round"],
    ...rows.map(({ series, found }) => [series.label, goal / 100, found?.seconds, found?.bits, found?.round])];
  exportable("target-time", "Time to target", table);
  exportable("target-bits", "Traffic to target", table);
}
