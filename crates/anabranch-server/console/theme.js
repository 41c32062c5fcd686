// Dark or light: as the machine is set, unless somebody chooses.

const KEY = "anabranch-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** What is shown now. */
export function theme() {
  return document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
}

export function toggleTheme() {
  const wanted = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = wanted;
  try {
    localStorage.setItem(KEY, wanted);
  } catch {
    // A browser that keeps nothing asks again next time.
  }
}

try {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // The same.
}
