// Prints what TypeScript's language service knows of a folder: node typescript.cjs FOLDER MODULE
const fs = require('fs')
const path = require('path')
const [folder, module_] = process.argv.slice(2)
const ts = require(module_)

const files = fs.readdirSync(folder, { recursive: true })
  .filter((name) => /\.tsx?$/.test(name))
  .map((name) => path.join(folder, name))
  .sort()
const options = {
  allowJs: false, noEmit: true, target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler, jsx: ts.JsxEmit.Preserve, strict: true, types: [],
}
const texts = new Map()
const read = (name) => {
  if (!texts.has(name)) texts.set(name, fs.existsSync(name) ? fs.readFileSync(name, 'utf8') : undefined)
  return texts.get(name)
}
const service = ts.createLanguageService({
  getScriptFileNames: () => files,
  getScriptVersion: () => '1',
  getScriptSnapshot: (name) => read(name) === undefined ? undefined : ts.ScriptSnapshot.fromString(read(name)),
  getCurrentDirectory: () => folder,
  getCompilationSettings: () => options,
  getDefaultLibFileName: (given) => ts.getDefaultLibFilePath(given),
  fileExists: (name) => read(name) !== undefined,
  readFile: read,
  directoryExists: ts.sys.directoryExists,
  getDirectories: ts.sys.getDirectories,
})
const program = service.getProgram()

const isFunction = (node) => node && (ts.isArrowFunction(node) || ts.isFunctionExpression(node))
// a name, or nothing if the node defines nothing that an index of definitions has
const defined = (node) => {
  if (ts.isClassDeclaration(node) || ts.isFunctionDeclaration(node) || ts.isInterfaceDeclaration(node)
    || ts.isEnumDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isMethodDeclaration(node)
    || ts.isMethodSignature(node) || ts.isGetAccessor(node) || ts.isSetAccessor(node)) return node.name
  if (ts.isModuleDeclaration(node)) return ts.isIdentifier(node.name) && node.name.text !== 'global' ? node.name : undefined
  if (ts.isConstructorDeclaration(node)) return node.getFirstToken()
  if ((ts.isPropertyDeclaration(node) || ts.isPropertyAssignment(node)) && isFunction(node.initializer)) return node.name
  // `exports.name = function () {}`
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.EqualsToken
    && (isFunction(node.right) || ts.isClassExpression(node.right))) {
    return ts.isPropertyAccessExpression(node.left) ? node.left.name : ts.isIdentifier(node.left) ? node.left : undefined
  }
  if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name)) {
    const statement = node.parent.parent
    const isTop = ts.isVariableStatement(statement) && ts.isSourceFile(statement.parent)
    return isTop || isFunction(node.initializer) ? node.name : undefined
  }
}
const whole = (node) => ts.isVariableDeclaration(node) && node.parent.declarations?.length === 1 ? node.parent.parent : node
const called = (node) => {
  const parent = node.parent
  const outer = ts.isPropertyAccessExpression(parent) && parent.name === node ? parent : node
  const call = outer.parent
  return call && (ts.isCallExpression(call) || ts.isNewExpression(call)) && call.expression === outer
}

const definitions = []
const uses = []
for (const name of files) {
  const source = program.getSourceFile(name)
  const file = path.relative(folder, name)
  const line = (position) => source.getLineAndCharacterOfPosition(position).line + 1
  const names = new Set()
  const visit = (node) => {
    const definition = defined(node)
    if (definition) {
      names.add(definition)
      const all = whole(node)
      const text = ts.isConstructorDeclaration(node) ? 'constructor' : definition.text ?? definition.getText(source)
      definitions.push([text, file, line(definition.getStart(source)), line(all.getStart(source)), line(all.getEnd())])
    }
    if ((ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) && node.text) {
      const found = service.getDefinitionAtPosition(name, node.getStart(source)) ?? []
      const targets = []
      for (const each of found) {
        const inside = path.relative(folder, each.fileName)
        if (inside.startsWith('..')) continue
        const target = program.getSourceFile(each.fileName)
        targets.push([inside, target.getLineAndCharacterOfPosition(each.textSpan.start).line + 1])
      }
      if (!names.has(node)) {
        uses.push([node.text, file, line(node.getStart(source)), Boolean(called(node)), found.length > 0, targets])
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
}
console.log(JSON.stringify({ definitions, uses }))
