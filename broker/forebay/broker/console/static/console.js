// Replaces the content of the page with what the broker sends after each sample. Everything it sends is escaped HTML.
"use strict";

const live = document.getElementById("live");
const content = document.getElementById("content");
const events = live.dataset.events ? new EventSource(live.dataset.events) : null;

// The focus, and how far a wide table was moved, stay where they were.
function placeOf(element) {
  const all = [...content.querySelectorAll("a, button, input, select, [tabindex]")];
  return all.indexOf(element);
}

function show(html) {
  const focused = content.contains(document.activeElement) ? placeOf(document.activeElement) : -1;
  const moved = [...content.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  content.innerHTML = html;
  content.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = moved[at] || 0; });
  if (focused >= 0) {
    const found = content.querySelectorAll("a, button, input, select, [tabindex]")[focused];
    if (found) found.focus({ preventScroll: true });
  }
}

if (events) watch();

function watch() {
  events.onmessage = (event) => {
    live.textContent = "live";
    live.className = "";
    const typing = content.contains(document.activeElement) && document.activeElement.matches("input, select");
    if (!typing && (!window.getSelection() || window.getSelection().isCollapsed)) show(JSON.parse(event.data));
  };
  events.addEventListener("gone", (event) => {
    live.textContent = JSON.parse(event.data);
    live.className = "away";
    events.close();
  });
  events.onerror = () => {
    live.textContent = "no answer: these figures are old";
    live.className = "away";
  };
}
