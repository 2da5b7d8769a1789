/** Asks before a file is deleted, with a warning where something uses it. */
import { Confirm } from '../../ui/parts.tsx';
import { bytes } from '../../words.ts';
import { calledOf, type KeptFile, shortName } from './file-names.ts';
import { UseLinks } from './use-links.tsx';
import type { Use } from './uses.ts';

/** `uses` is null where they could not be read. */
export type DeleteProps = {
  app: string;
  row: KeptFile;
  uses: readonly Use[] | null;
  onDone: () => unknown;
  onClose: () => void;
};

export function DeleteQuestion({ app, row: { sha256, type, size }, uses, onDone, onClose }: DeleteProps) {
  const isUsed = uses !== null && uses.length > 0;
  return (
    <Confirm
      title="Delete this file?"
      verb={isUsed ? 'Delete all the same' : 'Delete file'}
      onDone={onDone}
      onClose={onClose}
    >
      {isUsed && (
        <p class="problem" role="alert">
          It is used by <UseLinks app={app} sha256={sha256} uses={uses} />, which will then name a file that is gone.
        </p>
      )}
      {uses === null && <p>Whether a row of the app’s tables uses it could not be read.</p>}
      <p>
        <b>{calledOf(uses ?? [])}</b> <code>{shortName(sha256)}</code>, {type}, {bytes(size)}. It is gone at once, and
        nothing brings it back but a backup. Rows of tables that name it stay as they are.
      </p>
    </Confirm>
  );
}
