/** More loose objects than the git store leaves loose, for the scene in which it packs them. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { LIMITS } from '../../../protocol/limits.ts';
import { objectId, wrapObject } from '../../../storage/git/object.ts';
import { countLoose } from '../../../storage/git/packing.ts';
import type { CodeStorePaths } from '../../../storage/layout.ts';
import type { World } from './world.ts';

export function addLooseObjects({ layout }: World): void {
  const { repository } = layout.codeStore as CodeStorePaths;
  for (let n = 0; n < LIMITS.gitLooseObjects; n++) {
    const content = Buffer.from(`loose ${n}`);
    const id = objectId('blob', content);
    const path = join(repository, 'objects', id.slice(0, 2), id.slice(2));
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, deflateSync(wrapObject('blob', content)));
  }
}

/** Whether there is more to pack, or what was begun is not finished. */
export function isPacking({ layout }: World): boolean {
  const { repository } = layout.codeStore as CodeStorePaths;
  const isMarked = readdirSync(join(repository, 'objects', 'pack')).some((name) => /\.keep$|^tmp_/.test(name));
  return isMarked || countLoose(repository) >= LIMITS.gitLooseObjects;
}
