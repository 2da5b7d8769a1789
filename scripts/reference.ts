/** Writes the pages of the HTTP reference that are made from the rows of routes: `npm run reference`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RESOURCES } from '../protocol/routes/all.ts';
import { fileOf, pageOf } from '../protocol/routes/reference.ts';

for (const resource of RESOURCES)
  writeFileSync(join(import.meta.dirname, '../docs', fileOf(resource)), pageOf(resource));
