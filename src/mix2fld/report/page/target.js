// Time and traffic until the devices reach a score that the reader chooses.

function drawTarget() {
  const list = ranked(seriesHere());
  const peaks = list.map((series) => bestOf(lineOf(series, "devices", "seconds").mean));
  $("target").hidden = !list.length;
  if (!list.length) return;
  const slider = $("target-slider");
  const starts = list.map((one) => lineOf(one, "devices", "seconds").mean[0]);
  const ends = [...starts, ...peaks].map((value) => metric().factor * value);
  const fine = isShare() ? 1 : 10 ** Math.floor(Math.log10(Math.max(...ends) - Math.min(...ends) || 1) - 1);
  // Rounded to the side that is reached.
  const rounded = (value) => Number((fine * (gain(1) > 0 ? Math.floor : Math.ceil)((metric().factor * value) / fine)).toPrecision(12));
  const worst = rounded(gain(1) > 0 ? Math.min(...starts) : Math.max(...starts));
  const [low, high] = [worst, rounded(bestOf(peaks))].sort((a, b) => a - b);
  Object.assign(slider, { min: low, max: high, step: fine / 2 });
  const usual = rounded([...peaks].sort((a, b) => gain(a) - gain(b))[Math.floor(peaks.length / 2)]);
  const goal = Math.min(high, Math.max(low, chosen.target ? Number(chosen.target) : usual));
  const score = goal / metric().factor;
  slider.value = goal;
  slider.setAttribute("aria-valuetext", scored(score));
  $("target-shown").textContent = scored(score);
  slider.oninput = () => { remember({ target: slider.value }); drawTarget(); };
  const rows = list.map((series, n) => ({ series, peak: peaks[n], found: reaches(series, score) }))
    .sort((a, b) => (a.found?.seconds ?? Infinity) - (b.found?.seconds ?? Infinity) || gain(b.peak) - gain(a.peak));
  const lost = ({ summary }) => summary.attempted > 0 && !summary.delivered;
  const bar = (key, words) => rows.map(({ series, peak, found }) => ({ series, label: series.title,
    parts: [{ value: found?.[key] ?? 0, colour: ink(series), title: series.label }],
    words: found ? words(found) + (lost(series) ? ", no upload arrived" : "") : `not reached (${gain(1) > 0 ? "at most" : "at least"} ${scored(peak)})` }));
  barChart($("target-time"), bar("seconds", (found) => `${seconds(found.seconds)}, round ${found.round}`), { label: `Time to ${scored(score)}` });
  barChart($("target-bits"), bar("bits", (found) => (found.bits ? bits(found.bits) : "no uplink traffic")), { label: `Uplink traffic to ${scored(score)}` });
  const table = () => [["protocol", "target", "seconds", "uplink bits", "round"],
    ...rows.map(({ series, found }) => [series.label, score, found?.seconds, found?.bits, found?.round])];
  exportable("target-time", "Time to target", table);
  exportable("target-bits", "Traffic to target", table);
}
