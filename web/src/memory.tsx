// Memory: why is RSS higher than the heap? The ledger from requested bytes to RSS, where one was recorded.
import { abs, max } from "./arithmetic";
import type { Ledger, Summary } from "./api";
import { Document, Empty, ShareCell, Size } from "./bits";
import { useDocument } from "./fetch";
import { address, processOf, state } from "./state";
import { bytes, clean } from "./words";

export function MemoryView({ summary }: { summary: Summary }) {
  const answer = useDocument<Ledger>(address(`/api/r/${summary.id}/ledger`, processOf(state.value)));
  const rss = summary.totals.peak_rss_bytes ?? 0, peak = summary.totals.peak_bytes ?? 0;
  return <>
    {rss > 0 && summary.has.peak && <p class="lead">At its peak the program asked for <strong>{bytes(peak)}</strong>; the system gave it up to <strong>{bytes(rss)}</strong> (RSS){rss > peak ? `, ${bytes(rss - peak)} more` : ""}.</p>}
    <Document answer={answer}>{(ledger) => ledger.rows.length === 0
      ? <Empty title="No breakdown of resident memory">{clean(ledger.words)}</Empty>
      : <>{ledger.words && <p class="note">{clean(ledger.words)}</p>}<Rows ledger={ledger} /></>}</Document>
  </>;
}

function Rows({ ledger }: { ledger: Ledger }) {
  const sum = ledger.rows.reduce((a, r) => a + r.bytes, 0);
  const whole = max(ledger.rss_bytes, sum);
  return <div class="table-box" tabIndex={0} role="region" aria-label="Ledger"><table class="ledger">
    <caption class="hidden">From requested bytes to RSS</caption>
    <thead><tr><th scope="col">Part</th><th scope="col" class="number">Bytes</th><th scope="col">{ledger.rss_bytes ? "Share of RSS" : "Share"}</th><th scope="col" class="wide no-phone">What it is</th></tr></thead>
    <tbody>{ledger.rows.map((r, i) => <tr key={i}><th scope="row">{clean(r.name)}</th><td class="number"><Size n={r.bytes} /></td><td><ShareCell part={r.bytes} whole={whole} /></td><td class="wide no-phone" title={clean(r.words)}>{clean(r.words)}</td></tr>)}
      {ledger.rss_bytes > 0 && <tr class="sum"><th scope="row">RSS</th><td class="number"><Size n={ledger.rss_bytes} /></td><td><ShareCell part={ledger.rss_bytes} whole={whole} /></td><td class="wide no-phone">{ledger.rss_bytes !== sum ? `${bytes(abs(ledger.rss_bytes - sum))} ${ledger.rss_bytes > sum ? "not explained" : "counted, but not resident"}` : "all explained"}</td></tr>}
    </tbody></table></div>;
}
