/** The runs of automations and chats: all of them, or one. */
import type { Address } from '../address.ts';
import { RunFilters, RunList } from './list.tsx';
import { RunView } from './run.tsx';

export function RunsView({ address }: { address: Address }) {
  const runId = address.parts[1];
  if (runId !== undefined) return <RunView key={runId} runId={runId} />;
  return (
    <>
      <header class="heading">
        <h1>Runs</h1>
      </header>
      <RunFilters query={address.query} />
      <RunList query={address.query} />
    </>
  );
}
