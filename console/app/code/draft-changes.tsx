/** What a draft changes against the version that is live. */
import { usePolled } from '../../polled.ts';
import { Empty, Loading, Problem } from '../../ui/parts.tsx';
import { Brought, broughtBy, FileDiffs } from './changes.tsx';
import { readDiff } from './session.ts';

export function Changes({ app, session }: { app: string; session: string }) {
  const { value: diff, error, reload } = usePolled(() => readDiff(app, session), `${app} ${session}`);
  if (!diff) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  if (diff.files.length === 0) {
    return (
      <Empty title="Nothing is changed">
        <p>What you save in this draft is compared here with what is live.</p>
      </Empty>
    );
  }
  return (
    <div class="code-scroll card">
      <Brought texts={broughtBy(diff)} />
      <FileDiffs files={diff.files} />
    </div>
  );
}
