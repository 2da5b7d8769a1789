/** Links to the rows that use a file. */
import { plural } from '../../words.ts';
import { rowHref, rowText, type Use } from './uses.ts';

const SHOWN = 5;

export function UseLinks({
  app,
  sha256,
  uses,
  most = SHOWN,
}: {
  app: string;
  sha256: string;
  uses: readonly Use[];
  most?: number;
}) {
  return (
    <span class="uses">
      {uses.slice(0, most).map((use, at) => (
        <span key={`${use.table} ${use.key} ${use.column} ${at}`}>
          {at > 0 && ', '}
          <a href={rowHref(app, sha256, use)} title={`${use.table}, column ${use.column}`}>
            {rowText(use)}
          </a>
        </span>
      ))}
      {uses.length > most && <span class="hint"> and {plural(uses.length - most, 'more row')}</span>}
    </span>
  );
}
