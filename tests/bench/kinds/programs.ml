(* The programs of programs.rly in OCaml.  programs NAME N  prints the result and the least time in ms. *)
let next s = (s * 1103 + 12345) mod 1000003

type heap = Empty | Heap of int * int * heap * heap
let rank = function Empty -> 0 | Heap (r, _, _, _) -> r
let heap (x : int) a b = if rank a >= rank b then Heap (rank b + 1, x, a, b) else Heap (rank a + 1, x, b, a)
let rec meld a b = match a, b with
  | Empty, _ -> b
  | _, Empty -> a
  | Heap (_, x, l, r), Heap (_, y, m, s) -> if x <= y then heap x l (meld r b) else heap y m (meld a s)
let rec enqueue i s h = if i = 0 then h else let t = next s in enqueue (i - 1) t (meld (Heap (1, t, Empty, Empty)) h)
let rec dequeue h acc = match h with Empty -> acc | Heap (_, x, l, r) -> dequeue (meld l r) ((acc * 31 + x) mod 1000003)
let queue n = dequeue (enqueue n 7 Empty) 0

type term = Ref of int | Lam of term | App of term * term | Lit of int | Plus of term * term | Less of term * term * term * term
type value = Num of int | Clo of term * value list
let rec look e i = match e with v :: rest -> if i = 0 then v else look rest (i - 1) | [] -> Num 0
let number = function Num k -> k | Clo _ -> 0
let rec run t e = match t with
  | Ref i -> look e i
  | Lam b -> Clo (b, e)
  | App (f, a) -> (match run f e with Clo (b, own) -> run b (run a e :: own) | Num k -> Num k)
  | Lit k -> Num k
  | Plus (a, b) -> let x = number (run a e) in Num (x + number (run b e))
  | Less (a, b, c, d) -> let x = number (run a e) in if x < number (run b e) then run c e else run d e
let lambda n =
  let self = Lam (App (Ref 1, Lam (App (App (Ref 1, Ref 1), Ref 0)))) in
  let z = Lam (App (self, self)) in
  let fib = Lam (Lam (Less (Ref 0, Lit 2, Ref 0, Plus (App (Ref 1, Plus (Ref 0, Lit (-1))), App (Ref 1, Plus (Ref 0, Lit (-2))))))) in
  number (run (App (App (z, fib), Lit n)) [])

type code = Leaf of int * int | Fork of int * code * code
let weight = function Leaf (w, _) -> w | Fork (w, _, _) -> w
let rec place c l = match l with [] -> [ c ] | d :: r -> if weight c <= weight d then c :: l else d :: place c r
let rec leaves i s l = if i = 0 then l else leaves (i - 1) (next s) (place (Leaf ((next s mod 1000) + 1, i)) l)
let rec join = function a :: b :: r -> join (place (Fork (weight a + weight b, a, b)) r) | [ a ] -> a | [] -> Leaf (0, 0)
let rec bits c path acc = match c with Leaf (_, k) -> (k, path) :: acc | Fork (_, a, b) -> bits a (true :: path) (bits b (false :: path) acc)
let rec bits_of (k : int) t = match t with (j, b) :: r -> if j = k then b else bits_of k r | [] -> []
let rec onto (a : bool list) b = match a with x :: r -> onto r (x :: b) | [] -> b
let rec encode i s m t out = if i = 0 then out else encode (i - 1) (next s) m t (onto (bits_of ((s mod m) + 1) t) out)
let rec decode at all b acc = match at with
  | Leaf (_, k) -> decode all all b ((acc * 31 + k) mod 1000003)
  | Fork (_, l, r) -> (match b with [] -> acc | one :: rest -> decode (if one then l else r) all rest acc)
let huffman n = let code = join (leaves 60 11 []) in decode code code (encode n 3 60 (bits code [] []) []) 0

let rec find (n : int) (k : int) t = match t with ((a, b), v) :: r -> if a = n && b = k then Some v else find n k r | [] -> None
let rec parts n k t =
  if n = 0 then (1, t) else if n < 0 || k = 0 then (0, t) else
    match find n k t with
    | Some v -> (v, t)
    | None -> let a, t = parts (n - k) k t in let b, t = parts n (k - 1) t in let v = (a + b) mod 1000003 in (v, ((n, k), v) :: t)
let memo n = fst (parts n n [])

let rec row i j n = if j = n then [] else ((i * 7 + j * 3) mod 10) :: row i (j + 1) n
let rec rows i n = if i = n then [] else row i 0 n :: rows (i + 1) n
let rec each f l = match l with x :: r -> let y = f x in y :: each f r | [] -> []
let rec columns m = match m with
  | [] :: _ | [] -> []
  | _ -> each (function x :: _ -> x | [] -> 0) m :: columns (each (function _ :: s -> s | [] -> []) m)
let rec dot a b acc = match a, b with x :: r, y :: s -> dot r s ((acc + x * y) mod 10007) | _ -> acc
let product a b = let c = columns b in each (fun r -> each (fun s -> dot r s 0) c) a
let rec fold f z l = match l with x :: r -> fold f (f z x) r | [] -> z
let matrix n =
  let m = rows 0 n in
  fold (fun a r -> fold (fun b x -> (b * 31 + x) mod 1000003) a r) 0 (product (product m m) m)

type token = Digits of int | Sign of int | Open | Close
type ex = Const of int | Bin of int * ex * ex
let rec digits s v = match s with c :: r -> if c >= 48 && c <= 57 then digits r ((v * 10 + c - 48) mod 10007) else (v, s) | [] -> (v, [])
let rec tokens s = match s with
  | [] -> []
  | c :: r ->
    if c = 40 then Open :: tokens r else if c = 41 then Close :: tokens r
    else if c >= 48 && c <= 57 then let v, rest = digits s 0 in Digits v :: tokens rest
    else if c = 32 then tokens r else Sign c :: tokens r
let rec sum_of t = let a, t = term_of t in more_sum a t
and more_sum l t = match t with Sign c :: r when c = 43 || c = 45 -> let b, s = term_of r in more_sum (Bin (c, l, b)) s | _ -> (l, t)
and term_of t = let a, t = factor_of t in more_term a t
and more_term l t = match t with Sign c :: r when c = 42 -> let b, s = factor_of r in more_term (Bin (c, l, b)) s | _ -> (l, t)
and factor_of t = match t with
  | Digits v :: r -> (Const v, r)
  | Open :: r -> let e, s = sum_of r in (match s with Close :: s -> (e, s) | s -> (e, s))
  | _ :: r -> (Const 0, r)
  | [] -> (Const 0, [])
let rec value = function
  | Const v -> v
  | Bin (c, a, b) -> let x = value a in let y = value b in
    if c = 43 then (x + y) mod 10007 else if c = 45 then (x - y + 10007) mod 10007 else x * y mod 10007
let rec text i s =
  if i = 0 then 49 :: s else
    let d = 48 + i mod 10 in
    if i mod 7 = 0 then 40 :: d :: 43 :: d :: 41 :: 42 :: text (i - 1) s
    else d :: d :: 32 :: (if i mod 3 = 0 then 43 else if i mod 3 = 1 then 42 else 45) :: text (i - 1) s
let tokeniser n = value (fst (sum_of (tokens (text n []))))

type zipper = Zip of int list * int * int list
let right = function Zip (l, x, y :: r) -> Zip (x :: l, y, r) | Zip (l, x, []) -> Zip (x :: l, 0, [])
let left = function Zip (y :: l, x, r) -> Zip (l, y, x :: r) | Zip ([], x, r) -> Zip ([], 0, x :: r)
let here = function Zip (_, x, _) -> x
let put z x = match z with Zip (l, _, r) -> Zip (l, x, r)
let rec machine i state z =
  if i = 0 then match z with Zip (l, x, r) -> fold (fun a b -> (a * 3 + b) mod 1000003) (fold (fun a b -> (a * 3 + b) mod 1000003) (x + state) l) r
  else
    let x = here z in
    let y = (x * 5 + state + 1) mod 11 in
    if (x + state + i) mod 5 < 3 then machine (i - 1) ((state + y) mod 7) (right (put z y)) else machine (i - 1) ((state + 3) mod 7) (left (put z y))
let zipper n = machine n 0 (Zip ([], 1, []))

type 'a rose = Rose of 'a * 'a rose list
let rec grow d x = if d = 0 then Rose (x, []) else Rose (x, children (d - 1) ((x mod 4) + 2) x)
and children d k x = if k = 0 then [] else let c = grow d ((x * 3 + k) mod 1009) in c :: children d (k - 1) x
let rec rose_map f (Rose (x, c)) = Rose (f x, each (rose_map f) c)
let rec rose_fold f (Rose (x, c)) = f x (each (rose_fold f) c)
let rose n =
  rose_fold (fun x l -> fold (fun a b -> (a * 5 + b) mod 1000003) x l) (rose_map (fun x -> x * 2 + 1) (grow n 3))

type tree = Tip | Bin3 of tree * int * tree
let rec build d x = if d = 0 then Tip else Bin3 (build (d - 1) (2 * x), x, build (d - 1) (2 * x + 1))
let rec sum_k t k = match t with Tip -> k 0 | Bin3 (l, x, r) -> sum_k l (fun a -> sum_k r (fun b -> k ((a + b + x) mod 1000003)))
let rec fib_k n k = if n < 2 then k n else fib_k (n - 1) (fun a -> fib_k (n - 2) (fun b -> k (a + b)))
let cps n = sum_k (build n 1) (fun x -> x) + fib_k n (fun x -> x)

let zero _ = fun x -> x
let succ n = fun f -> let g = n f in fun x -> f (g x)
let plus m n = fun f -> let g = m f in let h = n f in fun x -> g (h x)
let times m n = fun f -> m (n f)
let rec church_of k = if k = 0 then zero else succ (church_of (k - 1))
let church n =
  let a = church_of n in
  let b = plus (times a a) (times a (church_of 7)) in
  b (fun x -> (x * 3 + 1) mod 10007) 0

let () =
  let n = int_of_string Sys.argv.(2) in
  let f = List.assoc Sys.argv.(1) [ "queue", queue; "lambda", lambda; "huffman", huffman; "memo", memo; "matrix", matrix; "tokeniser", tokeniser; "zipper", zipper; "rose", rose; "cps", cps; "church", church ] in
  let best = ref infinity and r = ref 0 in
  for _ = 1 to 25 do let t = Unix.gettimeofday () in r := f n; best := min !best (Unix.gettimeofday () -. t) done;
  Printf.printf "%d %.4f\n" !r (!best *. 1e3)
