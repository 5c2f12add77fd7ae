// The inspector lies over the graph's right side, and moves nothing. Where that is just where a box was
// clicked, it goes to the other side: what was clicked stays in sight, for a second click, too.
import { signal } from "@preact/signals";

export const otherSide = signal(false);

export function inspectorAway(e: MouseEvent): void {
  const phone = innerWidth <= 720; // there it lies at the bottom
  otherSide.value = phone ? e.clientY > innerHeight * 0.42 : e.clientX > innerWidth - 380;
}
