// Before anything is drawn, so that a page in the chosen colours does not flash in the others.
const chosen = localStorage.getItem("penstock.theme");
if (chosen) document.documentElement.dataset.theme = chosen;
