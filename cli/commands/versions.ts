/** `svc versions`: what is stored of an app, newest first. */
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionRecord } from '../api.ts';
import type { CommandContext } from '../command.ts';
import { appPath, withQuery } from '../paths.ts';
import { formatAge, formatBytes, formatCount } from '../terminal/units.ts';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const versions = await connect().get<VersionRecord[]>(
    withQuery(appPath(args.at(0), '/versions'), { limit: LIMITS.listRowsMax }),
  );
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
  });
}
