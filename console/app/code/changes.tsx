/** What a draft changes: its files with their lines, and what publishing it brings. */
import type { ComponentChildren } from 'preact';
import type { Received } from '../../../protocol/routes/api.ts';

export type DraftDiff = Received<'GET /svc/_sessions/:sid/diff'>;

export type FileDiff = Omit<DraftDiff['files'][number], 'app'>;

/** What publishing brings beside the files, in words; empty when there is nothing of the kind. */
export function broughtBy({ files, network, uses, public: visitors, webhooks, behind }: DraftDiff): string[] {
  const migrations = files.filter(({ path, status }) => path.startsWith('migrations/') && status === 'added');
  const changes = (list: DraftDiff['network'], noun: string) =>
    list.map(({ before, after }) => {
      const was = new Set(before ?? []);
      const is = new Set(after ?? []);
      const added = [...is].filter((one) => !was.has(one));
      const removed = [...was].filter((one) => !is.has(one));
      const parts = [
        added.length > 0 && `${noun}: ${added.join(', ')}`,
        removed.length > 0 && `no longer: ${removed.join(', ')}`,
      ];
      return parts.filter(Boolean).join('; ');
    });
  return [
    ...migrations.map(({ path }) => `The data is migrated by ${path}. A copy of it is kept.`),
    ...changes(network, 'Handlers may reach other hosts'),
    ...changes(uses, 'Pages may call the tools of other apps'),
    ...changes(visitors, 'Visitors without a token may use'),
    ...webhooks.map(
      ({ ownerApp, automationId }) =>
        `Publishing creates the webhook of ${ownerApp}/${automationId}. Its secret is shown then, once.`,
    ),
    ...behind.map((app) => `Other changes to ${app} were published in the meantime; publishing keeps them.`),
  ].filter(Boolean);
}

export function Brought({ texts }: { texts: readonly string[] }) {
  if (texts.length === 0) return null;
  return (
    <ul class="brought">
      {texts.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  );
}

/** `aside` is drawn beside the name of each file. */
export function FileDiffs({
  files,
  aside,
}: {
  files: readonly FileDiff[];
  aside?: (file: FileDiff) => ComponentChildren;
}) {
  return (
    <div class="file-diffs">
      {files.map((file) => (
        <section key={file.path}>
          <h3>
            <span>{file.path}</span>{' '}
            <span class="hint">
              {file.status}, {file.binary ? 'binary' : `+${file.additions} −${file.deletions}`}
            </span>
            {aside?.(file)}
          </h3>
          {file.truncated ? (
            <p class="hint">The patch is too large to be shown.</p>
          ) : (
            file.patch !== '' && <Patch text={file.patch} />
          )}
        </section>
      ))}
    </div>
  );
}

const LINES: Record<string, string> = { '+': 'plus', '-': 'minus', '@': 'place' };

/** The lines of a patch; what names the file is left out, for the heading has it. */
function Patch({ text }: { text: string }) {
  const lines = text.split('\n');
  const first = lines.findIndex((line) => line.startsWith('@@'));
  return (
    // An area that scrolls must be reachable by keyboard.
    <pre class="patch" tabindex={0}>
      {lines.slice(Math.max(0, first)).map((line, at) => (
        <span key={at} class={LINES[line[0] ?? '']}>
          {line}
          {'\n'}
        </span>
      ))}
    </pre>
  );
}
