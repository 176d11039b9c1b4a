// Play, pause and step through something; with reduced motion it steps instead of moving.

function player({ box, steps, seconds: length, frame, step }) {
  let started = null;
  const toggle = button("Play", () => (started === null ? play() : pause()), { "data-player": "play" });
  const back = button("Back", () => { pause(); step(-1); }, { "aria-label": "One step back" });
  const next = button("Next", () => { pause(); step(1); }, { "aria-label": "One step on" });
  function play() {
    toggle.textContent = "Pause";
    started = performance.now();
    const mine = started;
    const tick = (now) => {
      if (started !== mine || !box.isConnected) return;
      const part = (now - mine) / (1000 * length);
      if (part >= 1) {
        if (!step(1)) { pause(); return; }
        play();
        return;
      }
      if (!reducedMotion()) frame(part);
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }
  function pause() {
    started = null;
    toggle.textContent = "Play";
  }
  box.replaceChildren(...(steps > 1 ? [back, toggle, next] : [toggle]));
  return { pause };
}
