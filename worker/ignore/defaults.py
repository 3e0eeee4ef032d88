"""Default patterns for files that are rarely wanted in an index. A tool's `keep` re-admits a kind."""

from __future__ import annotations

#: Patterns as in .gitignore, by kind. `target`, `build`, `dist` and `vendor` are missing on purpose: people keep their
#: own files in folders with these names. Files that only their content identifies are detected when they are read.
DEFAULTS: dict[str, tuple[str, ...]] = {
    # credentials; first, because their exceptions must not affect other kinds
    "secrets": (
        *(".env", ".env.*", ".env-*", ".env_*", "*.env", ".envrc"),
        # a directory of that name is usually a Python environment, and examples contain no secrets
        *("!.env/", "!.env.*/", "!*.env/", "!.env*example*", "!.env*sample*", "!.env*template*", "!.env*.tmpl"),
        *("!.env*.tpl", "!.env*.dist", "!.env*.defaults", "!.env*.schema", "!*example*.env", "!*sample*.env"),
        *("!*template*.env", "!.env.d.ts", "!.env*.md"),
        *(".netrc", "_netrc", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".htpasswd", ".s3cfg", ".boto"),
        *("**/.aws/credentials", "**/.azure/accessTokens.json", "**/gcloud/application_default_credentials.json"),
        *(".git-credentials", "**/.config/git/credentials", "**/.config/gh/hosts.yml", ".vault-token"),
        *("**/.kube/config", "kubeconfig", "*.kubeconfig", "**/.docker/config.json", ".dockercfg"),
        *("**/.cargo/credentials", "**/.cargo/credentials.toml", "**/.gem/credentials", ".databrickscfg"),
        *("*.jks", "*.keystore", "*.jceks", "*.bks", "*.p12", "*.pfx", "*.kdbx", "*.kdb", "*.ppk", "*.keychain"),
        *("*.keychain-db", "secring.gpg", "*.tfstate", "*.tfstate.backup", "*.tfstate.*.backup"),
    ),
    # version control history rather than files
    "vcs": (".git", ".hg/", ".svn/", ".bzr/", ".jj/", "CVS/", "_darcs/"),
    # third-party code that can be fetched again
    "dependencies": (
        *("node_modules/", "bower_components/", "jspm_packages/", ".pnpm-store/", "**/.yarn/cache/", ".pnp.cjs"),
        *(".venv/", "venv/", "site-packages/", ".tox/", ".nox/", ".eggs/", "__pypackages__/"),
        *(".gradle/", ".terraform/", ".bundle/", "Pods/", "Carthage/", "elm-stuff/", ".direnv/"),
    ),
    # private data of tools and systems, including our own
    "caches": (
        *("__pycache__/", ".mypy_cache/", ".ruff_cache/", ".pytest_cache/", ".hypothesis/", ".ipynb_checkpoints/"),
        *(".import_linter_cache/", ".cache/", ".parcel-cache/", ".next/", ".nuxt/", ".svelte-kit/", ".turbo/"),
        *(".sass-cache/", ".nyc_output/", ".foldex/", ".DS_Store", "Thumbs.db", "desktop.ini", "._*"),
    ),
    # versions and hashes that tools write and read
    "locks": (
        *("*.lock", "*.lockb", "*.lockfile", "package-lock.json", "packages.lock.json", "npm-shrinkwrap.json"),
        *("pnpm-lock.yaml", "go.sum", "go.work.sum", ".terraform.lock.hcl", "Package.resolved"),
    ),
    "minified": ("*.min.js", "*.min.mjs", "*.min.cjs", "*-min.js", "*.min.css", "*-min.css"),
    "generated": (
        *("*.js.map", "*.mjs.map", "*.cjs.map", "*.css.map", "*.d.ts.map", "*.tsbuildinfo", "*.snap"),
        *("*.pb.go", "*.pb.cc", "*.pb.h", "*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb.js", "*_pb.d.ts"),
        *("*.g.dart", "*.freezed.dart", "*.g.cs", "*.designer.cs", "*.Designer.cs", "*.egg-info/"),
    ),
    # settings and leftovers of editors
    "editors": (".idea/", ".vscode/", ".vs/", ".fleet/", ".zed/", "*.swp", "*.swo", "*~", ".#*"),
}
