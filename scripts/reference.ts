/** Writes the pages of the HTTP reference that are made from the rows of routes: `npm run reference`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileOf, pageOf } from '../protocol/routes/reference.ts';
import { RESOURCES } from '../protocol/routes/resources.ts';

for (const resource of RESOURCES)
  writeFileSync(join(import.meta.dirname, '../docs', fileOf(resource)), pageOf(resource));
