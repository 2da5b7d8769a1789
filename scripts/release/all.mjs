// Makes everything for users in release/, of one installation of the package: the package, the Debian package, the single file.
import { makeBinary } from './binary.mjs';
import { makeDeb } from './deb.mjs';
import { installTree } from './tree.mjs';

const tree = await installTree();
console.log(`${makeDeb(tree)}\n${makeBinary(tree)}`);
