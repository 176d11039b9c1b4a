// What the reader has chosen, kept in the address: a reload or a copied link shows the same.

const DEFAULTS = {
  setting: "0", include: "", baseline: "", axis: "seconds", measure: "devices", yscale: "zoomed", xscale: "auto",
  hidden: "", sort: "", reverse: "", target: "", share: "seconds", direction: "up", seed: "", round: "",
  grid: "score", shown: "", step: "", tround: "", power: "", devices: "", slots: "", samples: "", weight: "", theme: "auto",
};
const chosen = { ...DEFAULTS };

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) chosen[name] = given.get(name) ?? DEFAULTS[name];
}

// Change some choices and keep them; the caller draws what depends on them.
function remember(changes) {
  Object.assign(chosen, changes);
  const kept = new URLSearchParams();
  for (const [name, value] of Object.entries(chosen)) if (value !== DEFAULTS[name]) kept.set(name, value);
  history.replaceState(null, "", `#${kept}`);
}

const hiddenSet = () => new Set(chosen.hidden ? chosen.hidden.split("|") : []);

// A link within the page scrolls, but leaves the choices in the address alone.
function followInside(event) {
  const link = event.target.closest("a[href^='#']");
  const target = link && $(link.getAttribute("href").slice(1));
  if (!target) return;
  event.preventDefault();
  target.scrollIntoView({ behavior: reducedMotion() ? "auto" : "smooth" });
  target.setAttribute("tabindex", "-1");
  target.focus({ preventScroll: true });
}
