// Before anything is painted, so that a dark room stays dark. The choice is this browser's; without one the system's counts.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("tenure-theme");
  } catch {
    // A browser that keeps nothing shows what the system says.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
