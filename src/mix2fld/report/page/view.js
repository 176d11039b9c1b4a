// The part of the data that is looked at: finished runs or all, in the chosen setting.

let data = null;

const view = () => data.views[chosen.include && data.views.all ? "all" : "finished"];
const several = () => data.settings.length > 1;
const setting = () => data.settings[Number(chosen.setting)] ?? data.settings[0];
const settingNumber = () => data.settings.indexOf(setting());
const seriesIn = (number) => view().series.filter((one) => one.settings.includes(number));
const seriesHere = () => seriesIn(settingNumber());
const ranked = (list) => list.filter((one) => one.ranked);
const runsOf = (series) => series.runs.map((id) => data.runs[id]);

// The curve of a series over an axis, with what a line needs to be drawn; null if not measured.
function lineOf(series, measure, axis) {
  const found = series.curves[measure].find((one) => axis in one.x);
  if (!found) return null;
  return { ...series, mean: found.mean, low: found.low ?? found.mean, high: found.high ?? found.mean,
    seeds: found.seeds ?? null, rounds: found.round, measured: found.measured ?? null,
    x: found.x[axis], converged: found.converged[axis] };
}

// The first measured point of a series as good as a score or better; null if it never gets there.
function reaches(series, score) {
  const time = lineOf(series, "devices", "seconds");
  const place = time ? time.mean.findIndex((value) => gain(value) >= gain(score)) : -1;
  if (place < 0) return null;
  return { seconds: time.x[place], bits: 1e6 * lineOf(series, "devices", "bits").x[place], round: time.rounds[place] };
}

// Score of a series less that of another, over the seeds that both have: mean and spread.
function against(series, other) {
  const common = Object.keys(series.by_seed).filter((seed) => seed in other.by_seed);
  if (!common.length) return null;
  const all = common.map((seed) => series.by_seed[seed] - other.by_seed[seed]);
  const mean = all.reduce((a, b) => a + b, 0) / all.length;
  const squares = all.reduce((sum, one) => sum + (one - mean) ** 2, 0);
  return { mean, spread: all.length > 1 ? Math.sqrt(squares / (all.length - 1)) : null, seeds: all.length };
}

const baselineIn = (number) => ranked(seriesIn(number)).find((one) => one.protocol === chosen.baseline) ?? null;
