// Numbers as text, as the terminal writes them.

const inPercent = (share) => (100 * share).toFixed(1);
const percent = (share) => `${inPercent(share)} %`;

// What is measured: accuracy, or what else a task says, with its unit, its decimals and which direction is better.
const metric = () => data.metric;
const inMetric = (value) => (metric().factor * value).toFixed(metric().digits);
const scored = (value) => `${inMetric(value)} ${metric().unit}`.trim();
const isShare = () => metric().unit === "%";
const gain = (value) => (metric().better === "higher" ? value : -value);
const bestOf = (values) => (metric().better === "higher" ? Math.max(...values) : Math.min(...values));
const capital = (words) => words[0].toUpperCase() + words.slice(1);
// Words about accuracy as words about what is measured.
const named = (words) => words.replace(/Accuracy/g, capital(metric().name)).replace(/accuracy/g, metric().name);

const short = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6 });
const whole = (value) => Math.round(value).toLocaleString("en");
const points = (difference) => `${difference < 0 ? "−" : "+"}${inMetric(Math.abs(difference))}`;
const pointsUnit = () => (isShare() ? "points" : metric().unit);

function seconds(value) {
  if (value >= 1 || value === 0) return `${short(value)} s`;
  return value >= 1e-3 ? `${short(1e3 * value)} ms` : `${short(1e6 * value)} µs`;
}

function bits(value) {
  for (const [unit, size] of [["Gbit", 1e9], ["Mbit", 1e6], ["kbit", 1e3]])
    if (value >= size) return `${short(value / size)} ${unit}`;
  return `${short(value)} bit`;
}

function joules(value) {
  for (const [unit, size] of [["MJ", 1e6], ["kJ", 1e3], ["J", 1], ["mJ", 1e-3]])
    if (value >= size) return `${short(value / size)} ${unit}`;
  return `${short(1e6 * value)} µJ`;
}

const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

// An ISO time in UTC, to the minute.
const moment = (iso) => (iso ? `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC` : null);
