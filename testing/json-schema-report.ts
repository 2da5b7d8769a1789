/** The results of the official JSON Schema suite, as the tables of docs/json-schema.md. */
import { Hyperjump, type Judgement, judgeOurs, type Verdict } from './json-schema-judges.ts';
import { type Group, readSuite, suiteCommit } from './json-schema-suite.ts';

export type Judged = { group: Group; ours: Judgement; other: Judgement };

/** The parts of the suite that are counted separately; a file belongs to the first whose start matches. */
const PARTS: [name: string, start: string][] = [
  ['Optional: formats', 'optional/format/'],
  ['Optional: other', 'optional/'],
  ['Required', ''],
];

/** Both judges on every case of the suite. */
export async function judgeSuite(): Promise<Judged[]> {
  const hyperjump = new Hyperjump();
  const judged: Judged[] = [];
  for (const group of readSuite()) {
    judged.push({ group, ours: judgeOurs(group), other: await hyperjump.judge(group) });
  }
  return judged;
}

export function expected({ valid }: { valid: boolean }): Verdict {
  return valid ? 'valid' : 'invalid';
}

export function suiteTables(judged: Judged[]): string {
  return [
    `Suite at commit \`${suiteCommit()}\`.`,
    '### Counts',
    counts(judged),
    '### Schemas refused at upload',
    refused(judged),
    '### Cases in which one of the two differs from the suite',
    differences(judged),
  ].join('\n\n');
}

function counts(judged: Judged[]): string {
  const rows = PARTS.map(([name]) => {
    const part = judged.filter(({ group }) => partOf(group) === name);
    const cases = part.flatMap(({ group, ours, other }) =>
      group.tests.map((one, i) => ({
        wanted: expected(one),
        ours: ours.verdicts[i] as Verdict,
        other: other.verdicts[i] as Verdict,
      })),
    );
    return [
      cases.length,
      cases.filter(({ wanted, ours }) => ours === wanted).length,
      cases.filter(({ ours }) => ours === 'refused').length,
      cases.filter(({ wanted, ours }) => ours !== wanted && ours !== 'refused').length,
      cases.filter(({ wanted, other }) => other === wanted).length,
    ];
  });
  const total = rows.reduce((sum, row) => sum.map((value, i) => value + (row[i] as number)));
  return markdownTable(
    ['Part', 'Cases', 'As expected', 'Schema refused', 'Otherwise', '`@hyperjump/json-schema` as expected'],
    [...PARTS.map(([name], i) => [name, ...(rows[i] as number[])]).reverse(), ['All', ...total]],
  );
}

function refused(judged: Judged[]): string {
  return markdownTable(
    ['File', 'Group', 'Cases', 'Code', 'Why'],
    judged
      .filter(({ ours }) => ours.reason !== null)
      .map(({ group, ours }) => [group.file, group.description, group.tests.length, ours.code ?? '', why(ours)]),
  );
}

function why({ reason }: Judgement): string {
  return (reason ?? '').replace(/^app\.json: queries\[0\]\.input(?:\.| is not a usable JSON Schema: )/, '');
}

function differences(judged: Judged[]): string {
  return markdownTable(
    ['File', 'Group', 'Case', 'Suite', 'Gateway', 'Hyperjump'],
    judged.flatMap(({ group, ours, other }) =>
      group.tests.flatMap((one, i) => {
        const [wanted, mine, theirs] = [expected(one), ours.verdicts[i] as Verdict, other.verdicts[i] as Verdict];
        if (theirs === wanted && (mine === wanted || mine === 'refused')) return [];
        return [[group.file, group.description, one.description, wanted, mine, theirs]];
      }),
    ),
  );
}

function partOf({ file }: Group): string {
  return (PARTS.find(([, start]) => file.startsWith(start)) as [string, string])[0];
}

function markdownTable(head: string[], rows: (string | number)[][]): string {
  const line = (cells: (string | number)[]): string => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}

/** Text escaped for a table cell: names of the suite contain every character with a meaning in Markdown or HTML. */
function cell(text: string | number): string {
  return String(text)
    .replaceAll('\\', '\\\\')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll(/[|*_[\]]/g, '\\$&')
    .replaceAll(/\s+/g, ' ');
}
