/** `svc versions`: what is stored of an app, newest first. */

import type { VersionRecord } from '../../protocol/answers.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { CommandContext } from '../command.ts';
import { appPath, withQuery } from '../gateway/paths.ts';
import { formatAge, formatBytes, formatCount } from '../terminal/units.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const app = args.at(0);
  const limit = args.number('lines', 1, LIMITS.listRowsMax) ?? LIMITS.listRows;
  const before = args.text('before');
  const versions = await connect().get<VersionRecord[]>(withQuery(appPath(app, '/versions'), { limit, before }));
  terminal.answer(versions, () => {
    const now = Date.now();
    terminal.table(
      [
        { title: 'VERSION' },
        { title: '' },
        { title: 'APP VERSION' },
        { title: 'UPLOADED' },
        { title: 'FILES', align: 'right' },
        { title: 'SIZE', align: 'right' },
      ],
      versions.map((version) => [
        { text: version.versionId, format: version.active ? 'bold' : 'reset' },
        version.active ? { text: '● live', format: 'green' } : '',
        version.version,
        { text: formatAge(version.uploadedAt, now), format: 'dim' },
        formatCount(version.files),
        formatBytes(version.bytes),
      ]),
    );
    const last = versions.length === limit ? versions.at(-1) : undefined;
    if (last !== undefined) terminal.note(`Older ones, if any: svc versions ${app} --before ${last.versionId}`);
  });
}
