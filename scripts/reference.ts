/** Writes the pages of the HTTP reference that are made from the rows of routes: `npm run reference`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileOf, pageOf } from '../protocol/routes/reference.ts';
import { RESOURCES } from '../protocol/routes/resources.ts';
import { rolesPage } from '../protocol/routes/weakest-role.ts';

const write = (name: string, text: string) => writeFileSync(join(import.meta.dirname, '../docs', name), text);

for (const resource of RESOURCES) write(fileOf(resource), pageOf(resource));
write('http-roles.md', rolesPage(RESOURCES.flatMap(({ rows }) => rows)));
