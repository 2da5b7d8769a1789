/** The cluster: whether its database answers, its nodes with what each owns, and the node of this console taken out of service. */
import { useState } from 'preact/hooks';
import type { ClusterStatus, NodeStatus } from '../../protocol/routes/operations/cluster-rows.ts';
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { Button, Card, Confirm, Facts, Loading, Problem, State } from '../ui/parts.tsx';
import { ago, clock, plural } from '../words.ts';
import { useWork } from '../work.ts';

const READ_MS = 1000;

const read = (signal: AbortSignal) => gateway.call('GET /svc/_cluster', {}, { signal });

export function Cluster() {
  const { value, error, reload } = usePolled(read, 'cluster', READ_MS);
  const [isAsking, setAsking] = useState(false);
  const work = useWork();
  if (!value) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const { nodes, freeBuckets, database } = value;
  const own = nodes.find(({ self }) => self);
  const drain = async (draining: boolean) => {
    await gateway.call('POST /svc/_cluster/drain', { body: { draining } });
    reload();
  };
  return (
    <div class="stack">
      <Facts facts={factsOf(value)} />
      <Problem error={error ?? work.error} />
      {database?.error && <p class="problem">{database.error}</p>}
      {freeBuckets > 0 && (
        <p class="problem" role="alert">
          Nobody owns {plural(freeBuckets, 'bucket')}: their apps do not answer.
        </p>
      )}
      <Card
        class="table"
        title="Nodes"
        aside={
          own?.state === 'draining' ? (
            <Button disabled={work.isBusy} onClick={() => work.run(() => drain(false))}>
              Let {own.name} take buckets again
            </Button>
          ) : (
            own?.state === 'live' && <Button onClick={() => setAsking(true)}>Drain {own.name}…</Button>
          )
        }
      >
        <table>
          <thead>
            <tr>
              <th>Node</th>
              <th>State</th>
              <th class="number">Buckets</th>
              <th class="wide">Started</th>
              <th class="wide">Release</th>
            </tr>
          </thead>
          <tbody>
            {nodes.map((node) => (
              <NodeRow key={node.name} node={node} />
            ))}
          </tbody>
        </table>
      </Card>
      <p class="hint">
        Drain another node in its own console, or with <code>svc cluster drain &lt;node&gt;</code>.
      </p>
      {isAsking && own && (
        <Confirm
          title={`Drain ${own.name}?`}
          verb="Drain"
          isHarmless
          onDone={() => drain(true)}
          onClose={() => setAsking(false)}
        >
          <p>
            It hands its {plural(own.buckets, 'bucket')} over to the other nodes and takes no new ones. Each app waits
            for a moment when it moves. The node goes on answering, by asking the others: once it owns nothing, stop it.
          </p>
        </Confirm>
      )}
    </div>
  );
}

function factsOf({ node, nodes, database }: ClusterStatus): [string, string][] {
  return [
    ['This node', node ?? 'none'],
    ['Nodes', `${nodes.filter(({ state }) => state === 'live').length} live of ${nodes.length}`],
    ['Database', database?.answers ? 'answers' : 'does not answer'],
    ['At', (database?.addresses ?? []).join(', ')],
  ];
}

function NodeRow({ node: { name, address, version, state, started, buckets, self } }: { node: NodeStatus }) {
  return (
    <tr>
      <td>
        <b>{name}</b> {self && <span class="hint">this one</span>}
        <span class="hint about">{address}</span>
      </td>
      <td>
        <State state={state} text={state === 'draining' && buckets === 0 ? 'drained' : undefined} />
      </td>
      <td class="number">{buckets.toLocaleString()}</td>
      <td class="wide hint" title={clock(started)}>
        {ago(started)}
      </td>
      <td class="wide">{version}</td>
    </tr>
  );
}
