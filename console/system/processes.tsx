/** The process tree live: memory, CPU, mailboxes, restarts, why each ended last, and how writers group their commits. */
import type { ComponentChildren } from 'preact';
import type { SystemStatus } from '../../protocol/routes/operations/system-rows.ts';
import { hrefOf } from '../address.ts';
import { useGateway } from '../gateway-state.tsx';
import { BYTE_STEPS, Chart } from '../ui/chart.tsx';
import { Card, Facts, Loading, Problem, State } from '../ui/parts.tsx';
import { bytes, duration, plural, took } from '../words.ts';
import { keptSamples } from './samples.ts';

type Process = SystemStatus['processes'][number];
type Actor = NonNullable<Process['actors']>[number];

export function Processes() {
  const { system, error, reload } = useGateway();
  const samples = keptSamples();
  if (!system) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const times = samples.map(({ at }) => at);
  const one = (value: number) => (value < 10 ? value.toFixed(1) : String(Math.round(value)));
  return (
    <>
      <Facts facts={factsOf(system)} />
      <div class="charts">
        <Chart
          title="Event loop"
          times={times}
          format={(value) => took(value)}
          series={[{ label: 'delay, p99', values: samples.map(({ delayMs }) => delayMs), color: '--accent' }]}
        />
        <Chart
          title="CPU"
          times={times}
          format={(value) => `${one(value * 100)} %`}
          series={[{ label: 'of a core', values: samples.map(({ cpu }) => cpu), color: '--good' }]}
        />
        <Chart
          title="Memory"
          times={times}
          format={bytes}
          steps={BYTE_STEPS}
          series={[{ label: 'all processes', values: samples.map(({ memory }) => memory), color: '--warn' }]}
        />
        <Chart
          title="Writer"
          times={times}
          format={(value) => `${one(value)}/s`}
          series={[
            { label: 'commits', values: samples.map(({ commits }) => commits), color: '--accent' },
            { label: 'statements', values: samples.map(({ rows }) => rows), color: '--good' },
          ]}
        />
      </div>
      <Card class="table" title="Processes">
        <table class="processes">
          <thead>
            <tr>
              <th>Process</th>
              <th>State</th>
              <th class="number wide">Pid</th>
              <th class="number wide">Up</th>
              <th class="number wide">Restarts</th>
              <th class="number wide">CPU time</th>
              <th class="number">Memory</th>
            </tr>
          </thead>
          <tbody>
            {system.processes.map((process) => (
              <ProcessRows key={process.name} process={process} />
            ))}
          </tbody>
        </table>
      </Card>
      {system.toolServers.length > 0 && (
        <Card class="table" title="MCP servers">
          <table>
            <tbody>
              {system.toolServers.map(({ name, kind, state, lastError }) => (
                <tr key={name}>
                  <td>
                    <b>{name}</b> <span class="hint">{kind}</span>
                  </td>
                  <td>
                    <State state={state} />
                  </td>
                  <td class="problem">{lastError}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
    </>
  );
}

function factsOf(system: SystemStatus): [string, ComponentChildren][] {
  const { eventLoop, disk, counters, automations } = system;
  return [
    ['Version', system.version],
    ['Node', system.node],
    ['Up', duration(system.uptimeMs)],
    ['Edge', system.edge ?? 'host'],
    ['Event loop', `p50 ${took(eventLoop.p50)}, p99 ${took(eventLoop.p99)}`],
    ['Disk', disk ? `${bytes(disk.freeBytes)} of ${bytes(disk.sizeBytes)} free` : 'unknown'],
    ['Live subscribers', counters.subscribers.toLocaleString()],
    [
      'Runs',
      <>
        <a href={hrefOf(['runs'], { state: 'running' })}>{automations.running} running</a>,{' '}
        <a href={hrefOf(['runs'], { state: 'queued' })}>{automations.waiting} waiting</a>
      </>,
    ],
    ['Data', system.dataDir],
  ];
}

/** A process, and below it the apps in it that are awake. */
function ProcessRows({ process }: { process: Process }) {
  const { name, pid, state, uptimeMs, restarts, rss, cpuMs, lastExit, actors = [], unlistedActors = 0 } = process;
  const awake = actors.filter((actor) => actor.state !== 'idle');
  const asleep = actors.length - awake.length;
  const others = [
    ...(asleep > 0 ? [`${plural(asleep, 'app')} asleep`] : []),
    ...(unlistedActors > 0 ? [`${unlistedActors} more`] : []),
  ];
  return (
    <>
      <tr>
        <td>
          <b>{name}</b> {others.length > 0 && <span class="hint">{others.join(', ')}</span>}
          <Lane process={process} />
          {lastExit && <span class="hint about">Ended last: {lastExit}</span>}
        </td>
        <td>
          <State state={state} />
        </td>
        <td class="number wide">{pid ?? '–'}</td>
        <td class="number wide">{uptimeMs === null ? '–' : duration(uptimeMs)}</td>
        <td class="number wide">{restarts}</td>
        <td class="number wide">{cpuMs === null ? '–' : took(cpuMs)}</td>
        <td class="number">{rss === null ? '–' : bytes(rss)}</td>
      </tr>
      {awake.map((actor) => (
        <ActorRow key={`${actor.app}/${actor.automation}`} actor={actor} />
      ))}
    </>
  );
}

/** How many statements a writer puts into one commit: the more, the fewer flushes. */
function Lane({ process: { role, counters } }: { process: Process }) {
  if (role !== 'writer' || !counters?.commits) return null;
  const { commits, statements = 0, groupMax = 0, open = 0, checkpoints = 0 } = counters;
  return (
    <span class="hint about">
      {plural(commits, 'commit')} of {(statements / commits).toFixed(1)} statements, at most {groupMax} at once;{' '}
      {plural(checkpoints, 'checkpoint')}; {plural(open, 'open database')}
    </span>
  );
}

/** A draft of an app is `_drafts/<workspace>/<app>`. */
function actorHref({ app, automation }: Actor): string {
  const [, workspace, id] = /^_drafts\/([^/]+)\/(.+)$/.exec(app) ?? [];
  if (id !== undefined) return hrefOf(['apps', id, 'code'], { session: workspace });
  return hrefOf(automation === null ? ['apps', app] : ['automations', app, automation]);
}

function ActorRow({ actor }: { actor: Actor }) {
  const { app, automation, state, mailbox, inFlight, memory, restarts, lastExit, uptimeMs, place, placeReason } = actor;
  const name = automation === null ? app : `${app}/${automation}`;
  return (
    <tr class="actor">
      <td>
        <a href={actorHref(actor)}>{name}</a>{' '}
        <span class="hint">
          {plural(inFlight, 'call')} running, {mailbox} waiting{placeReason && `, own thread: ${placeReason}`}
        </span>
        {lastExit && <span class="hint about">Ended last: {lastExit}</span>}
      </td>
      <td>
        <State state={state} />
      </td>
      <td class="number wide">{place === 'commons' ? 'commons' : 'thread'}</td>
      <td class="number wide">{uptimeMs === null ? '–' : duration(uptimeMs)}</td>
      <td class="number wide">{restarts}</td>
      <td class="number wide"></td>
      <td class="number">{memory === null ? '–' : bytes(memory)}</td>
    </tr>
  );
}
