// Copying. A page from a file has no clipboard of its own: the old way works there, too.
import { signal } from "@preact/signals";

export const copied = signal(""); // what was copied last

export function copyText(text: string): void {
  if (!text) return;
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  copied.value = text;
}
