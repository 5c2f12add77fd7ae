// Memory: why is RSS higher than the heap? The ledger from requested bytes to RSS, where one was recorded.
import { abs, max } from "./arithmetic";
import type { Ledger, Summary } from "./api";
import { Document, Empty, ShareCell, Size } from "./bits";
import { useDocument } from "./fetch";
import { address, processOf, state } from "./state";
import { bytes, clean } from "./words";

export function MemoryView({ summary }: { summary: Summary }) {
  const answer = useDocument<Ledger>(address(`/api/r/${summary.id}/ledger`, processOf(state.value)));
  const t = summary.totals;
  return <>
    {t.peakRssBytes > 0 && summary.has.peak && <p class="lead">At its peak the program asked for <strong>{bytes(t.peakBytes)}</strong>; the system gave it up to <strong>{bytes(t.peakRssBytes)}</strong> (RSS){t.peakRssBytes > t.peakBytes ? `, ${bytes(t.peakRssBytes - t.peakBytes)} more` : ""}.</p>}
    <Document answer={answer}>{(ledger) => ledger.rows.length === 0
      ? <Empty title="No ledger was recorded">{clean(ledger.words)}</Empty>
      : <>{ledger.words && <p class="note">{clean(ledger.words)}</p>}<Rows ledger={ledger} /></>}</Document>
  </>;
}

function Rows({ ledger }: { ledger: Ledger }) {
  const sum = ledger.rows.reduce((a, r) => a + r.bytes, 0);
  const whole = max(ledger.rssBytes, sum);
  return <div class="table-box" tabIndex={0} role="region" aria-label="Ledger"><table class="ledger">
    <caption class="hidden">From requested bytes to RSS</caption>
    <thead><tr><th scope="col">Part</th><th scope="col" class="number">Bytes</th><th scope="col">{ledger.rssBytes ? "Share of RSS" : "Share"}</th><th scope="col" class="wide no-phone">What it is</th></tr></thead>
    <tbody>{ledger.rows.map((r, i) => <tr key={i}><th scope="row">{clean(r.name)}</th><td class="number"><Size n={r.bytes} /></td><td><ShareCell part={r.bytes} whole={whole} /></td><td class="wide no-phone" title={clean(r.words)}>{clean(r.words)}</td></tr>)}
      {ledger.rssBytes > 0 && <tr class="sum"><th scope="row">RSS</th><td class="number"><Size n={ledger.rssBytes} /></td><td><ShareCell part={ledger.rssBytes} whole={whole} /></td><td class="wide no-phone">{ledger.rssBytes !== sum ? `${bytes(abs(ledger.rssBytes - sum))} ${ledger.rssBytes > sum ? "not explained" : "counted but not resident"}` : "all explained"}</td></tr>}
    </tbody></table></div>;
}
