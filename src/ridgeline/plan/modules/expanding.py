"""Expand modules: an application whose operators are all named, `clean.cheap` for one inside of `clean`.

`expand` calls `populate` of each module on a view of its own, and joins what the views hold.
"""

from __future__ import annotations

import copy
import inspect
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ridgeline.api.application import AddedModule, AddedOperator, Application
from ridgeline.api.attributes import OperatorAttributes
from ridgeline.api.errors import described, did_you_mean, listed
from ridgeline.api.module import Module
from ridgeline.plan.draft import DraftModule, Faults, ModuleScope
from ridgeline.plan.overrides import key_splitter
from ridgeline.plan.validate.operators import set_properties
from ridgeline.plan.validate.ports import declared_schema

_API = str(Path(inspect.getfile(Application)).parent)
_DEEPEST = 16
"""More modules inside each other are taken for one that contains itself."""


@dataclass(slots=True, eq=False)
class Expanded:
    """The operators and values that modules were expanded to.

    `scopes`: the application and all modules, each after what it is in. `modules`: by the `id` of the
    instance that was added. `properties`: options that are left for operators.
    """

    operators: list[AddedOperator]
    scopes: list[ModuleScope]
    modules: dict[int, DraftModule]
    properties: dict[str, object]

    @property
    def named(self) -> set[str]:
        """The names of all operators and modules."""
        modules = {module.name for module in self.modules.values()}
        return modules | {str(added.name) for added in self.operators}


def expand(faults: Faults, app: Application, properties: Mapping[str, object]) -> Expanded:
    """Expand the modules of an application; adds faults to the draft. The application is not changed.

    `properties` are options by name, as of `validate`: those of modules are used up here.
    """
    expander = _Expander(faults, app, properties)
    expander.walk(ModuleScope("", app), {}, [])
    left = dict(expander.left(properties))
    return Expanded(expander.operators, expander.scopes, expander.modules, left)


class _Expander:
    """Walks through the application and its modules, depth first, in the order of adding."""

    def __init__(self, faults: Faults, app: Application, properties: Mapping[str, object]) -> None:
        self.faults = faults
        self.root = app
        self.properties = properties
        self.operators: list[AddedOperator] = []
        self.scopes: list[ModuleScope] = []
        self.modules: dict[int, DraftModule] = {}
        self.homes: dict[int, str] = {}
        """The full names of operators, by the `id` of the author's instance."""
        self.used: set[str] = set()
        self.endless = False

    def walk(self, scope: ModuleScope, defaults: OperatorAttributes, above: list[Module]) -> None:
        """Take what a scope holds; `above`: the modules that it is in, the outermost first."""
        self.scopes.append(scope)
        modules = list(scope.app.modules)
        for position, added in enumerate([*scope.app.operators, None]):
            # a module stands among the operators where it was added: ids and states follow that order
            for module in [module for module in modules if module.position == position]:
                self.module(scope, module, defaults, above)
            if added is not None:
                name = scope.inner(added.name)
                if (first := self.homes.setdefault(id(added.operator), name)) != name:
                    self.twice(first, name, added.operator)
                    continue
                scope.operators.add(id(added.operator))
                self.distinct(scope, added.name)
                given: Any = {**defaults, **added.attributes}
                self.operators.append(replace(added, name=name, attributes=given, module=scope.name))

    def twice(self, first: str, name: str, thing: object) -> None:
        """Refuse an operator or a module that is at two places."""
        kind = type(thing).__name__
        what = f"the same `{kind}` is added twice, as `{first}` and `{name}`"
        self.faults.add(name, what, f"make a new `{kind}(...)` for each")

    def distinct(self, scope: ModuleScope, name: str) -> None:
        """Refuse an operator or a module inside that has the name of a property of its module."""
        module = scope.module
        if module is not None and name in module.declared.properties:
            what = f"`{name}` is both a property of `{module.kind}` and the name of something inside"
            self.faults.add(scope.inner(name), what, "rename one: `-D` could not tell them apart")

    def module(
        self, scope: ModuleScope, added: AddedModule, defaults: OperatorAttributes, above: list[Module]
    ) -> None:
        """Expand one module. Nothing is expanded after one that seems to contain itself."""
        where = scope.inner(added.name)
        if self.endless or self.refuse(where, added.module, above):
            nothing = ModuleScope(where, Application(self.root.name))
            failed = DraftModule(where, added.module, scope, nothing, failed=True)
            self.modules.setdefault(id(added.module), failed)
            return
        self.distinct(scope, added.name)
        inside = ModuleScope(where, Application(self.root.name, self.root.window))
        module = DraftModule(where, copied(added.module), scope, inside)
        inside.module = module
        self.modules[id(added.module)] = self.modules[id(module.module)] = module
        given: Any = {**defaults, **added.attributes}
        for each in scope.app.attributes_set:
            if each.target is added.module and not each.unifier:
                given |= each.attributes
        sound = self.declarations(module)
        if self.property_values(module) and sound and self.populate(module):
            self.walk(inside, given, [*above, added.module, module.module])
            module.failed = self.endless
        else:
            module.failed = True

    def refuse(self, where: str, module: Module, above: list[Module]) -> bool:
        """Return True, and add a fault, for a module that cannot be expanded."""
        kind = type(module).__name__
        if any(module is other for other in above):
            self.faults.add(where, f"module `{kind}` contains itself", "add another module, or none")
        elif id(module) in self.modules:
            self.twice(self.modules[id(module)].name, where, module)
        elif len(above) // 2 >= _DEEPEST:
            self.endless = True
            what = f"it is the last of {_DEEPEST + 1} modules inside each other; `{kind}` may contain itself"
            self.faults.add(where, what, "end it, such as by a property that counts down")
        else:
            return False
        return True

    def declarations(self, module: DraftModule) -> bool:
        """Refuse what has no effect in the body of a module's class."""
        before = len(self.faults.found)
        declared = module.declared
        for name in (*declared.inputs, *declared.outputs):
            schema = declared_schema(self.faults, module.port(name), module.module, name)[1]
            if schema is not None:
                module.schemas[name] = schema
        for name in declared.states:
            what = f"`{module.kind}` declares state, which a module cannot keep"
            self.faults.add(module.port(name), what, "declare it in an operator inside")
        for name, entry in declared.inputs.items():
            options: dict[str, object] = {
                "key": entry.key,
                "codec": entry.declared_codec,
                "parallel": entry.parallel,
                "order": entry.order,
            }
            self.useless(module, name, options)
            if entry.methods:
                what = f"`{module.kind}` has a method for the tuples of `{name}`, which is never called"
                self.faults.add(module.port(name), what, "process tuples in an operator inside")
        for name, leaving in declared.outputs.items():
            options = {
                "unifier": leaving.unifier,
                "error": leaving.error,
                "timestamp": leaving.timestamp,
                "lateness": leaving.lateness_seconds is not None,
                "divided_by": bool(leaving.divided_by),
            }
            self.useless(module, name, options)
        return len(self.faults.found) == before

    def useless(self, module: DraftModule, port: str, given: Mapping[str, object]) -> None:
        """Refuse options of a module's port that only an operator's can have."""
        names = [name for name, value in given.items() if value not in (None, False)]
        if names:
            what = f"{listed(names)} would do nothing on a port of a module"
            self.faults.add(module.port(port), what, "declare it on the port of the operator inside")

    def property_values(self, module: DraftModule) -> bool:
        """Apply the overrides of a module's properties and validate them; True if all are valid."""
        if "_given" not in vars(module.module):
            what = f"`{module.kind}.__init__` does not call the `__init__` of `Module`"
            self.faults.add(module.name, what, "call `super().__init__(**properties)` in it")
            return False
        before = len(self.faults.found)
        vars(module.module)["_given"] = dict(vars(module.module)["_given"])
        overrides = {}
        for key, value in self.properties.items():
            path = key.removeprefix(f"{module.name}.")
            if path != key and path.partition(".")[0] in module.declared.properties:
                overrides[path] = value
                self.used.add(key)
        set_properties(self.faults, module.name, module.module, overrides)
        return len(self.faults.found) == before

    def populate(self, module: DraftModule) -> bool:
        """Call `populate` on a view of its own; False, and a fault, if that does not work."""
        view, root = module.inside.app, self.root
        lists: tuple[list[Any], ...] = (root.operators, root.streams, root.modules)
        before = [len(added) for added in lists]
        try:
            module.module.populate(view)
        except Exception as error:  # noqa: BLE001  whatever it is, it is a fault of the module
            what = f"`{module.kind}.populate` raised {described(error)}{_place(error)}"
            self.faults.add(module.name, what, "mend it, or give the module other properties")
            return False
        finally:
            outside = any(len(added) > count for added, count in zip(lists, before, strict=True))
            for added, count in zip(lists, before, strict=True):
                del added[
                    count:
                ]  # `populate` is called at each planning: the author's application stays as it is
        if outside:
            what = f"`{module.kind}.populate` added to the application, not to the `app` that it is given"
            self.faults.add(module.name, what, "call `add_operator` and the like of that `app`")
        changed = [
            name
            for name in ("name", "window", "attributes", "dead_letter_port")
            if getattr(view, name) != _fresh(root, name)
        ]
        if changed:
            what = f"`{module.kind}.populate` sets {listed(changed)} of its `app`, which does nothing"
            self.faults.add(module.name, what, "set it on the application")
        return True

    def left(self, properties: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        """The overrides of properties that no module took; a fault for one that names nothing in a module."""
        modules = {module.name: module for module in self.modules.values()}
        operators = {str(added.name) for added in self.operators}
        split = key_splitter({*modules, *operators})
        for key, value in properties.items():
            if key in self.used:
                continue
            owner, rest = split(key)
            if owner not in modules or owner in operators:
                yield key, value
            elif not modules[owner].failed:
                name = rest.partition(".")[0]
                inside = modules[owner].inside.app
                added: list[Any] = [*inside.operators, *inside.modules]
                known = [str(one.name) for one in added]
                known += list(modules[owner].declared.properties)
                what = f"module `{owner}` has no property, operator or module `{name}`"
                self.faults.add(key, what, did_you_mean(name, known))


def copied(module: Module) -> Module:
    """A copy for `populate`, which may change the collections in it."""
    own = copy.copy(module)
    for name, value in vars(own).items():
        if isinstance(value, (list, dict, set)):
            vars(own)[name] = copy.copy(value)
    return own


def _fresh(app: Application, name: str) -> object:
    return {"attributes": {}, "dead_letter_port": None}.get(name, getattr(app, name))


def _place(error: Exception) -> str:
    """Where an exception of `populate` came from: the last line of it that is not of the API."""
    lines = traceback.extract_tb(error.__traceback__)[1:]
    frames = [one for one in lines if not one.filename.startswith(_API)]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
