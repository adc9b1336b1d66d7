// Replaces the content of the page with what the broker sends after each sample. Everything it sends is escaped HTML.
"use strict";

const live = document.getElementById("live");
const content = document.getElementById("content");
const events = live.dataset.events ? new EventSource(live.dataset.events) : null;

const FOCUSABLE = "a, button, input, select, [tabindex]";

function placeOf(element) {
  return element.tagName + (element.getAttribute("href") || element.getAttribute("name") || element.getAttribute("aria-label"));
}

// The focus, and how far a wide table was moved, stay where they were: at what has the same text, or leads to the same place.
function show(html) {
  const focused = content.contains(document.activeElement) ? document.activeElement : null;
  const moved = [...content.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  content.innerHTML = html;
  content.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = moved[at] || 0; });
  if (focused !== null) {
    const same = [...content.querySelectorAll(FOCUSABLE)].filter((one) => placeOf(one) === placeOf(focused));
    const found = same.find((one) => one.textContent === focused.textContent) || same[0];
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
