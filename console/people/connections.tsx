/** The programs that somebody connected; each can be ended. */
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { Button, Problem } from '../ui/parts.tsx';
import { ago } from '../words.ts';
import { useWork } from '../work.ts';

/** `id` is that of a person, or `me`. */
export function Connections({ id }: { id: string }) {
  const params = { pid: id };
  const load = (signal: AbortSignal) => gateway.call('GET /svc/_people/:pid/connections', { params }, { signal });
  const { value, error, reload } = usePolled(load, `connections ${id}`, 0);
  const { isBusy, error: problem, run } = useWork();
  const end = (connection: string) =>
    run(async () => {
      await gateway.call('DELETE /svc/_people/:pid/connections/:connection', { params: { pid: id, connection } });
      reload();
    });
  if (!value) return <Problem error={error} retry={reload} />;
  return (
    <div class="stack">
      <span class="label">
        {value.length === 0 ? 'No program is connected' : 'These programs act for this account'}
      </span>
      <ul class="plain">
        {value.map(({ id: connection, name, app, workspace, role, roleName = role, createdAt, lastUsedAt }) => (
          <li key={connection} class="line">
            <span class="hint">
              <strong>{name}</strong>: {roleName} of{' '}
              {app === null ? 'all apps' : workspace === null ? app.name : `the draft of ${app.name}`}, connected{' '}
              {ago(createdAt)}, used {ago(lastUsedAt)}
            </span>
            <Button class="small" disabled={isBusy} onClick={() => void end(connection)}>
              Disconnect
            </Button>
          </li>
        ))}
      </ul>
      <Problem error={problem} />
    </div>
  );
}
