// Documents: from the server, or from the page itself (a one-file report). Views ask for an address
// with useDocument and are drawn again when it is there; while another one is on its way, the last one
// stays on screen. When a live recording grows, what is on screen is asked again and the rest
// forgotten.
import { signal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { address, selectionOf, state, type Query } from "./state";

export interface Answer<T> {
  value?: T;
  words?: string; // why there is none
  absent?: boolean; // a one-file report that does not hold it
  loading: boolean;
}

interface Entry {
  answer: Signal<Answer<unknown>>;
  users: number;
  asked: number;
}

const MOST_KEPT = 80;
const entries = new Map<string, Entry>();
let embedded: Record<string, unknown> | null = null;
export const token = typeof location === "undefined" ? "" : new URLSearchParams(location.search).get("token") ?? "";

async function unpack(base64: string): Promise<string> {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// True if the page brought its documents with it.
export async function readEmbedded(): Promise<boolean> {
  const element = document.getElementById("heft-data");
  if (!element) return false;
  embedded = JSON.parse(await unpack(element.textContent!.trim())) as Record<string, unknown>;
  return true;
}

export function isFile(): boolean {
  return embedded !== null;
}
export function holds(address: string): boolean {
  return !embedded || Object.hasOwn(embedded, address);
}

async function ask(address: string): Promise<Answer<unknown>> {
  if (embedded) {
    if (Object.hasOwn(embedded, address)) return { value: embedded[address], loading: false };
    return { absent: true, loading: false, words: "This one-file report does not contain that part. Open the recording with: heft view FILE" };
  }
  try {
    const reply = await fetch(address, { headers: token ? { Authorization: "Bearer " + token } : {} });
    if (!reply.ok) {
      const words = (await reply.text()).trim().slice(0, 500);
      return { loading: false, words: words || `The server answered with status ${reply.status}.` };
    }
    return { value: await reply.json(), loading: false };
  } catch {
    return { loading: false, words: "heft no longer answers. Is \"heft view\" still running?" };
  }
}

function load(address: string, entry: Entry): void {
  const asked = ++entry.asked;
  void ask(address).then((answer) => {
    if (asked !== entry.asked) return;
    // What was there stays while the server is away.
    if (answer.value === undefined && entry.answer.value.value !== undefined && !answer.absent)
      answer.value = entry.answer.value.value;
    entry.answer.value = answer;
  });
}

function entryOf(address: string): Entry {
  let entry = entries.get(address);
  if (entry) return entry;
  if (entries.size >= MOST_KEPT)
    for (const [key, old] of entries) {
      if (!old.users) entries.delete(key);
      if (entries.size < MOST_KEPT) break;
    }
  entry = { answer: signal<Answer<unknown>>({ loading: true }), users: 0, asked: 0 };
  entries.set(address, entry);
  load(address, entry);
  return entry;
}

export function useDocument<T>(address: string | null): Answer<T> {
  const last = useRef<T | undefined>(undefined);
  const entry = address === null ? null : entryOf(address);
  useEffect(() => {
    if (!entry) return undefined;
    entry.users++;
    return () => void entry.users--;
  }, [entry]);
  if (!entry) return { loading: false };
  const answer = entry.answer.value as Answer<T>;
  if (answer.value !== undefined) last.current = answer.value;
  else if (answer.loading && last.current !== undefined) return { loading: true, value: last.current };
  return answer;
}

// A document about the part of the recording that is selected.
export function useSelected<T>(summary: { id: string }, name: string, query: Query = {}): Answer<T> {
  return useDocument<T>(address(`/api/r/${summary.id}/${name}`, selectionOf(state.value), query));
}

function refresh(): void {
  for (const [address, entry] of entries)
    if (entry.users) load(address, entry);
    else entries.delete(address);
}

// Asks again whenever the recording has grown, until it has ended. Returns how to stop.
export function follow(id: string): () => void {
  const events = new EventSource(`/api/r/${id}/events` + (token ? `?token=${encodeURIComponent(token)}` : ""));
  events.addEventListener("change", refresh);
  events.addEventListener("end", () => {
    events.close();
    refresh();
  });
  return () => events.close();
}
