/** Notices: the ways by which they reach people and how each does, a test, and the browsers that show them. */
import { useState } from 'preact/hooks';
import type { ChannelStatus, TestResult } from '../../protocol/routes/operations/notices-rows.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Card, Confirm, Loading, Problem, State } from '../ui/parts.tsx';
import { ago, clock, plural } from '../words.ts';
import { useWork } from '../work.ts';
import { type Agreement, agree, endAgreement, readAgreement } from './push-browser.ts';

const READ_MS = 5000;
const KINDS = { mail: 'Mail', ntfy: 'ntfy', slack: 'Slack', json: 'Webhook', push: 'Browser' };
const EXAMPLE = `"notify": [{
  "kind": "ntfy",
  "url": "https://ntfy.sh/a-secret-name"
}]`;

type Read = { channels: ChannelStatus[]; agreement: Agreement };

async function read(signal: AbortSignal): Promise<Read> {
  const [{ channels }, agreement] = await Promise.all([
    gateway.call('GET /svc/_notices', {}, { signal }),
    readAgreement(),
  ]);
  return { channels, agreement };
}

export function NoticesView() {
  const { value, error, reload } = usePolled(read, 'notices', READ_MS);
  const [results, setResults] = useState<ReadonlyMap<string, TestResult>>(new Map());
  const work = useWork();
  if (!value) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const { channels, agreement } = value;
  const test = () =>
    work.run(async () => {
      const { results } = await gateway.call('POST /svc/_notices/test');
      setResults(new Map(results.map((result) => [result.channel, result])));
      const failed = results.filter(({ ok }) => !ok).length;
      notify(
        failed === 0 ? 'The test was sent. Did it reach you?' : `The test did not reach ${plural(failed, 'channel')}.`,
      );
      reload();
    });
  const configured = channels.filter(({ kind }) => kind !== 'push');
  const browsers = channels.filter(({ kind }) => kind === 'push');
  return (
    <>
      <Card
        class={configured.length > 0 ? 'table' : ''}
        title="Notices"
        aside={
          channels.length > 0 && (
            <Button kind="primary" disabled={work.isBusy} onClick={test}>
              {work.isBusy ? 'Sending a test…' : 'Send a test'}
            </Button>
          )
        }
      >
        <Problem error={error ?? work.error} />
        {configured.length > 0 ? <Channels title="Channel" channels={configured} results={results} /> : <NoChannels />}
      </Card>
      <Browsers browsers={browsers} agreement={agreement} results={results} onChanged={reload} />
    </>
  );
}

function NoChannels() {
  return (
    <div class="none stack">
      <p>
        Failed runs, failed backups, quarantined apps, and what apps send with <code>ctx.notify</code> can reach you by
        mail, ntfy, Slack or a webhook, and in browsers. For the first four, add <code>mail</code> or{' '}
        <code>notify</code> to the configuration file and start the gateway again:
      </p>
      <pre class="channel-example">{EXAMPLE}</pre>
    </div>
  );
}

type Results = ReadonlyMap<string, TestResult>;

/** Browsers have `onRemove`, and one of them may be this one. */
function Channels({
  title,
  channels,
  results,
  ownId = null,
  onRemove,
}: {
  title: string;
  channels: readonly ChannelStatus[];
  results: Results;
  ownId?: string | null;
  onRemove?: (browser: ChannelStatus['browser']) => void;
}) {
  return (
    <table>
      <thead>
        <tr>
          <th>{title}</th>
          <th>State</th>
          <th class="wide">Last sent</th>
          {onRemove ? <td /> : <th class="number">Waiting</th>}
        </tr>
      </thead>
      <tbody>
        {channels.map((status) => (
          <tr key={status.channel}>
            <td>
              <b>{nameOf(status)}</b>
              {status.browser?.id === ownId && <span class="hint channel-note">this browser</span>}
            </td>
            <td>
              <HowItIs status={status} result={results.get(status.channel)} />
            </td>
            <td class="wide">
              <LastSent status={status} />
            </td>
            <td class="number">
              {onRemove ? (
                <Button class="small" aria-label={`Remove ${nameOf(status)}`} onClick={() => onRemove(status.browser)}>
                  Remove
                </Button>
              ) : (
                status.waiting
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** `Mail`, `ntfy 2`: as the gateway names them, in the words of people. */
function nameOf({ channel, kind, browser }: ChannelStatus): string {
  return browser?.name ?? channel.replace(kind, KINDS[kind]);
}

function HowItIs({
  status: { state, lastFailure, dropped },
  result,
}: {
  status: ChannelStatus;
  result: TestResult | undefined;
}) {
  const isFailing = state === 'failing' && lastFailure !== null;
  return (
    <>
      {isFailing ? (
        <State state="failed" text={`fails, last ${ago(lastFailure.at)}`} />
      ) : state === 'ok' ? (
        <State state="ok" text={result?.ok ? 'took the test' : 'works'} />
      ) : (
        <State state="idle" text="nothing sent yet" />
      )}
      {isFailing && <span class="hint channel-note">{lastFailure.message}</span>}
      {dropped > 0 && <span class="hint channel-note">{plural(dropped, 'notice')} given up</span>}
    </>
  );
}

function LastSent({ status: { lastSentAt } }: { status: ChannelStatus }) {
  return lastSentAt === null ? (
    <span class="hint">never</span>
  ) : (
    <span title={clock(lastSentAt)}>{ago(lastSentAt)}</span>
  );
}

function Browsers({
  browsers,
  agreement,
  results,
  onChanged,
}: {
  browsers: readonly ChannelStatus[];
  agreement: Agreement;
  results: Results;
  onChanged: () => void;
}) {
  const { isBusy, error, run } = useWork();
  const [removing, setRemoving] = useState<NonNullable<ChannelStatus['browser']>>();
  const ownId = agreement.state === 'on' ? agreement.id : null;
  const isListed = browsers.some(({ browser }) => browser?.id === ownId);
  const begin = () =>
    run(async () => {
      await agree();
      notify('This browser shows notices from now on.');
      onChanged();
    });
  const end = async (id: string) => {
    await endAgreement(id, id === ownId);
    notify('The browser gets no more notices.');
    onChanged();
  };
  const mayAgree = agreement.state === 'off' || (agreement.state === 'on' && !isListed);
  return (
    <Card
      class={browsers.length > 0 ? 'table' : ''}
      title="Browsers"
      aside={
        mayAgree && (
          <Button class="small" disabled={isBusy} onClick={begin}>
            {isBusy ? 'Asking the browser…' : 'Notify me in this browser'}
          </Button>
        )
      }
    >
      <Problem error={error} />
      {browsers.length > 0 && (
        <Channels title="Browser" channels={browsers} results={results} ownId={ownId} onRemove={setRemoving} />
      )}
      <WhyNot agreement={agreement} hasBrowsers={browsers.length > 0} />
      {removing && (
        <Confirm
          title={`Remove ${removing.name}?`}
          verb="Remove browser"
          isHarmless
          onDone={() => end(removing.id)}
          onClose={() => setRemoving(undefined)}
        >
          <p>It shows no more notices. It can agree again at any time.</p>
        </Confirm>
      )}
    </Card>
  );
}

function WhyNot({ agreement, hasBrowsers }: { agreement: Agreement; hasBrowsers: boolean }) {
  if (agreement.state === 'impossible') return <p class="none">{agreement.why}</p>;
  if (agreement.state === 'denied')
    return <p class="none">This browser is not allowed to show notices. Allow it in its settings for this site.</p>;
  if (hasBrowsers) return null;
  return <p class="none">No browser shows notices yet. One that does shows them even if the console is closed.</p>;
}
