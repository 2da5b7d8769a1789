/** How long a version of an app takes from its archive to serving. */
import { APP, incompressible, packApp } from '../bench-app.ts';
import type { Workload } from '../workload.ts';
import { loadScenario } from './tools.ts';

const FILES = 100;
const FILE_BYTES = 2048;
/** More than are retained, so that every upload is of a version that is not there. */
const VERSIONS = 12;
const QUESTION = `How long does an upload of ${FILES} files take until its version serves?`;

export const uploadScenario = loadScenario('upload', QUESTION, async () => {
  const archives = await Promise.all(Array.from({ length: VERSIONS }, (_, version) => archive(version)));
  const workload: Workload = {
    scenario: 'upload',
    question: QUESTION,
    // The files are synced, but no commit is counted.
    durability: null,
    requests: archives.map((body) => ({ method: 'POST', path: `/svc/_apps/${APP}/upload`, body })),
    plain: archives.map((body) => ({ method: 'POST', path: `/${APP}/upload`, body })),
    connections: [1],
  };
  return workload;
});

function archive(version: number): Promise<Buffer> {
  const files = Array.from({ length: FILES }, (_, i): [string, Buffer] => [
    `media/${i}.png`,
    incompressible(FILE_BYTES, version * FILES + i),
  ]);
  return packApp(APP, Object.fromEntries(files));
}
