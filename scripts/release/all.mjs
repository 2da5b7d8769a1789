// Makes everything for users in release/, of one installation of the package: the package, the Debian package, the single file. With
// `--fast` they are as large as they come, and made in a third of the time, to be tried and not to be given to anybody.
import { makeBinary } from './binary.mjs';
import { makeDeb } from './deb.mjs';
import { installTree } from './tree.mjs';

const isFast = process.argv.includes('--fast');
const tree = await installTree();
console.log(`${makeDeb(tree, { isFast })}\n${makeBinary(tree, { isFast })}`);
